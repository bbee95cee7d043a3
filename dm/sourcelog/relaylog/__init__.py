"""Relay files, their index and their reader."""
