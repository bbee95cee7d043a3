"""The rules of a subtask."""
