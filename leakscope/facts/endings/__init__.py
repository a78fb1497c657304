"""How processes ended: killed by whom, refused what, with which last words."""
