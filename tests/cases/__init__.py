"""End-to-end cases, one folder each; tests/testbed/cases.py says how they are read."""
