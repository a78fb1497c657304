"""Where the bytes went, and how near a limit they came."""
