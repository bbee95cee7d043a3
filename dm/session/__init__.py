"""The sessions that dm opens at a server: how they log in, and what each of them sets."""
