"""Tests that the documents say what the program does."""
