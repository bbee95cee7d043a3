"""Several hosts: what etcd keeps for them, who owns which source, and where a source without an owner goes."""
