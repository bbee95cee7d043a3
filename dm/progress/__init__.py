"""Everything that knows about crashes; the essay stands in `protocol.py`."""
