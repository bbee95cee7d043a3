"""The text of the verbs, for people: a file for each file of declarations in dm/verbs, under its name."""
