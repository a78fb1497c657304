"""Many recordings at once: whole reports of all of them, on this computer or on a cluster that is there."""
