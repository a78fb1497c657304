"""The one thing that pyproject.toml cannot say: shared libraries of C that are no extension modules.

They are linked against no Python, and one file serves every Python of a platform, that of a recorded job included.
Where there is no compiler the package is installed without them, and leakscope says what it then cannot see.
"""

import os
from glob import glob
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext


def library(name: str, source: str, *headers: str) -> Extension:
    return Extension(
        name,
        [source],
        depends=[file for pattern in headers for file in glob(pattern)],
        libraries=["m"],
        extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
        extra_link_args=["-s"],
        optional=True,
    )


AGENT = "leakscope/agent"
READER = f"{AGENT}/graph/reader/*.h"
LIBRARIES = [
    library("leakscope.agent.graph.libleakscope_graph", f"{AGENT}/graph/reader.c", READER),
    library("leakscope.agent.libleakscope_entry", f"{AGENT}/entry.c"),
    library(
        "leakscope.agent.allocations.libleakscope_allocations",
        f"{AGENT}/allocations/sampler.c",
        f"{AGENT}/allocations/sampler/*.h",
        READER,
    ),
]


class BuildLibrary(build_ext):
    def get_ext_filename(self, fullname: str) -> str:
        """Without the name of the Python that builds it."""
        return os.path.join(*fullname.split(".")) + ".so"


class Wheel(bdist_wheel):
    def get_tag(self) -> Any:
        """For any Python 3."""
        return "py3", "none", super().get_tag()[2]


setup(ext_modules=LIBRARIES, cmdclass={"build_ext": BuildLibrary, "bdist_wheel": Wheel})
