"""Memory snapshots of torch, read from their files into rows of the recording's tables. Nothing in a file is executed."""

from .reader import Facts, Row, read, sniff

__all__ = ["Facts", "Row", "read", "sniff"]
