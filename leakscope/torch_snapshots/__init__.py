"""Memory snapshots of torch, from their files into rows of a recording's tables. Nothing in a file is executed."""

from .reader import Facts, Row, read, sniff

__all__ = ["Facts", "Row", "read", "sniff"]
