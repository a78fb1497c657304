"""Of the standard library: see ``types_of_c``."""

import sys

if len(sys.argv) == 1:
    sys.argv.append("standard")
import types_of_c

if __name__ == "__main__":
    types_of_c.main("standard")
