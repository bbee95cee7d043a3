"""Tests of the test bed itself."""
