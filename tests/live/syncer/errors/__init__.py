"""What a person does at an error, and that the task goes on."""
