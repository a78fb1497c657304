"""Attacks by other users of the same computer, carried out."""
