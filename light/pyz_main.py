# What `python leakscope.pyz` runs. It unpacks the package once, into a folder that only its user can write to: the
# agent is copied from there into jobs, and its libraries cannot be loaded from an archive.
import sys

BUILD = "@BUILD@"

if sys.version_info < (3, 9):
    sys.exit("leakscope: this needs Python 3.9 or later, such as: python3.11 leakscope.pyz record -- python train.py")

from leakscope import isolation

isolation.go_on_isolated(sys.path[0])  # before anything that a module of the user's may stand in for

import os
import zipfile

from leakscope import private


def unpacked(archive):
    """The folder with the package. The name says what is in it, and it appears whole. A reason where there is none."""
    reasons = []
    for base in private.bases():
        folder = os.path.join(base, "leakscope-pyz-" + BUILD)
        try:
            if not private.make_private(base):
                reasons.append(base + " can be changed by others")
                continue
            if not os.path.isdir(folder):
                part = os.path.join(base, ".pyz-" + os.urandom(8).hex())
                private.make_folder(part)
                try:
                    with zipfile.ZipFile(archive) as stream:
                        stream.extractall(part)
                    if not os.path.isdir(folder):
                        os.rename(part, folder)
                except OSError:
                    if not os.path.isdir(folder):  # another one was faster
                        raise
                finally:
                    private.remove_folder(part)
            return folder
        except OSError as error:
            reasons.append("%s: %s" % (base, error.strerror))
    sys.exit(
        "leakscope: no folder to unpack into (%s): set XDG_CACHE_HOME to a folder of your own" % "; ".join(reasons)
    )


sys.path[0] = unpacked(os.path.dirname(os.path.abspath(__file__)))
for name in [name for name in sys.modules if name.partition(".")[0] == "leakscope"]:
    del sys.modules[name]

from leakscope.__main__ import main

main()
