"""The target server: sessions, apply transactions and progress."""
