"""Structures and DDL against real servers."""
