"""Tables beside their task's stream: loaded and joining it, or led apart in a branch. What is stored at each step."""
