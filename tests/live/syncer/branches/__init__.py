"""Tables that join a running stream."""
