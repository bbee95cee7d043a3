"""The verbs of `dmctl` and of the API, each declared once (declaration.py); work and text are elsewhere."""
