"""Throw-away servers, a workload and a comparer: what the demo shows dm with and what the tests judge it by."""
