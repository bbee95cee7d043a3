"""Tables that are loaded beside the stream and join it, around a run."""
