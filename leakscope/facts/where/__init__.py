"""Which name and which line: what was seen in the heap and in stacks, looked up in the sources."""
