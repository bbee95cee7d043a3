"""Unit tests of dm.tools.replay."""
