"""The processes of a job: who was whose child, what they share, what they copied."""
