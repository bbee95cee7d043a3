"""Attacks, each tried as its attacker would: none of them may succeed (`make chaos PART=attacks`)."""
