"""Does the tree of processes grow, does one process, and is there an end in sight?"""
