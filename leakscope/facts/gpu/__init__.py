"""Memory of GPUs as torch's own snapshots show it: what each allocation was for, how long it lived, where it stands."""
