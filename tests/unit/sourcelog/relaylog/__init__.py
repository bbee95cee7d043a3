"""Relay files, without a server."""
