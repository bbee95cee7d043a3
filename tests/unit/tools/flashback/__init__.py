"""Unit tests of dm.tools.flashback."""
