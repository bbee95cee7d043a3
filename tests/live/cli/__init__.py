"""`dmctl` on a real daemon and real servers, as a new user meets it."""
