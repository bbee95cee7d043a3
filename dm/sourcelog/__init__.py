"""The log of a source: the server that has it, the relay's files, and whole transactions."""
