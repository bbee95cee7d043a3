"""Formats of dump files: chunk plans, names, manifests, texts and literals of rows."""
