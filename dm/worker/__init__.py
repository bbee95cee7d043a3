"""The daemon: API, registry, supervision."""
