"""What the user's sources say: text in, names and lines out. Knows no recording and no heap."""
