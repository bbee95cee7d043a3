"""Whatever is written and whoever dies: the target ends identical."""
