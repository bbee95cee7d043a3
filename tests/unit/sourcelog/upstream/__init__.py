"""The dump stream, without a server."""
