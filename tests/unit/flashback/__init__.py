"""Unit tests of dm.flashback."""
