"""Many recordings as one: an index of a folder or a bucket, lists, SQL, and a report of what many have in common."""
