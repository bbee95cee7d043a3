"""Long runs in parts: `make chaos`."""
