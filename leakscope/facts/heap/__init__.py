"""Who holds what: the snapshots of a process laid over each other, path by path."""
