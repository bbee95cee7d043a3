"""Progress of a shard merge: groups, held shards, numbered DDLs, structures."""
