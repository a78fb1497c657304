"""What a take writes down, a file for each kind of rows: ``TABLE`` and ``rows(take)``. A file put here is found."""

import os


def found():
    """The modules of this folder by name, each after those that it names in ``AFTER``."""
    names = sorted(name[:-3] for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py"))
    names.remove("__init__")
    package = __import__("", globals(), None, names, 1)  # from . import each
    ordered = []

    def add(probe):
        for name in getattr(probe, "AFTER", ()):
            add(getattr(package, name))
        if probe not in ordered:
            ordered.append(probe)

    for name in names:
        add(getattr(package, name))
    return ordered
