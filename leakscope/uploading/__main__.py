"""``python -m leakscope.uploading``: the helper that the recorder starts. An order as JSON on stdin."""

from __future__ import annotations

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
