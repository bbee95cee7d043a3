"""Two tasks in opposite directions, and the conflicts between them."""
