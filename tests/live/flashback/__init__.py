"""Live tests of `dmctl flashback`."""
