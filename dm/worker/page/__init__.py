"""The page: what tasks do and what they need, for a person with a browser."""
