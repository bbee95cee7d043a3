"""Unit tests of dm.replay."""
