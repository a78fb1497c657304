"""The helper of the recorder that has the libraries loaded when the job ends.

It says ``{"ready": true}``, then reads the path of a recording, a line of JSON each, on stdin, and writes how that one
stands: ``{"answer": [...]}``. Whatever goes wrong ends it, and the recorder does without.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping

from .. import analyzers
from . import told


def main() -> int:
    """Until stdin ends, which it does with the recorder."""
    analyzers.kinds()  # loads them
    gc.freeze()
    gc.enable()
    _say({"ready": True})
    for path in sys.stdin:
        _say({"answer": told(json.loads(path))})
    return 0


def _say(what: Mapping[str, object]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
