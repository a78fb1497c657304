"""The version, alone in a file so that the recorder can name it without importing anything else."""

__version__ = "0.1.0"
