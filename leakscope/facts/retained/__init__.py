"""The holders that explain what a process gained."""
