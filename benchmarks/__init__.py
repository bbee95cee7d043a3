"""`make bench`: what dm costs beside its peers, measured in one run on the same machine."""
