"""The target server: sessions, apply transactions and structures."""
