"""Long runs: `python -m tests.chaos.run`, which is `make chaos`."""
