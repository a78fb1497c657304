"""The one thing that pyproject.toml cannot say: a shared library of C that is no extension module.

It is linked against no Python, and one file serves every Python of a platform, that of a recorded job included. Where
there is no compiler the package is installed without it, and leakscope says what it then cannot see.
"""

import os
from glob import glob
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

HEAP_GRAPH = Extension(
    "leakscope.agent.graph.libleakscope_graph",
    ["leakscope/agent/graph/reader.c"],
    depends=glob("leakscope/agent/graph/reader/*.h"),
    extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
    extra_link_args=["-s"],
    optional=True,
)


class BuildLibrary(build_ext):
    def get_ext_filename(self, fullname: str) -> str:
        """Without the name of the Python that builds it."""
        return os.path.join(*fullname.split(".")) + ".so"


class Wheel(bdist_wheel):
    def get_tag(self) -> Any:
        """For any Python 3."""
        return "py3", "none", super().get_tag()[2]


setup(ext_modules=[HEAP_GRAPH], cmdclass={"build_ext": BuildLibrary, "bdist_wheel": Wheel})
