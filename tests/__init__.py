"""Tests of dm."""
