"""What the tests run on: servers, a fault proxy, end-to-end cases."""
