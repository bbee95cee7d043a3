"""What validators have stored at the target."""
