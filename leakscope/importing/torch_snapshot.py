"""Memory snapshots of torch (`torch.cuda.memory._dump_snapshot`), as pickle or JSON, also compressed by gzip."""

from ..torch_snapshots import read, sniff

__all__ = ["read", "sniff"]
