"""Sessions at the source."""
