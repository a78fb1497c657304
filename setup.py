"""What pyproject.toml cannot say: shared libraries of C that are no extension modules, and a command that is C.

They are linked against no Python, and one file serves every Python of a platform, that of a recorded job included.
Where there is no compiler the package is installed without them, and leakscope says what it then cannot see.
"""

import os
import tempfile
from glob import glob
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

# setuptools has put its own in place.
from distutils.ccompiler import new_compiler  # isort: skip
from distutils.command.build_scripts import build_scripts  # isort: skip
from distutils.errors import CCompilerError, DistutilsError  # isort: skip
from distutils.sysconfig import customize_compiler  # isort: skip


def library(name: str, source: str, *headers: str) -> Extension:
    return Extension(
        name,
        [source],
        depends=[file for pattern in headers for file in glob(pattern)],
        libraries=["m"],
        extra_compile_args=["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
        extra_link_args=["-s", "-Wl,-z,now"],  # nothing is looked up later, on a stack of the job's
        optional=True,
    )


# LEAKSCOPE_PURE=1: a wheel without C, for reading recordings where there is no wheel with it.
IS_PURE = os.environ.get("LEAKSCOPE_PURE") == "1"
AGENT = "leakscope/agent"
READER = f"{AGENT}/graph/reader/*.[ch]"
LIBRARIES = [
    library("leakscope.agent.graph.libleakscope_graph", f"{AGENT}/graph/reader.c", READER),
    library("leakscope.agent.libleakscope_entry", f"{AGENT}/entry.c"),
    library(
        "leakscope.agent.allocations.libleakscope_allocations",
        f"{AGENT}/allocations/sampler.c",
        f"{AGENT}/allocations/sampler/*.h",
        READER,
    ),
    library("leakscope.agent.interpreter.libleakscope_thread", f"{AGENT}/interpreter/waiting.c"),
    library("leakscope.replaying.libleakscope_replay", "leakscope/replaying/replay.c"),
]
LIBRARIES = [one for one in LIBRARIES if os.path.exists(one.sources[0])]  # what only records replays nothing


class BuildLibrary(build_ext):
    def get_ext_filename(self, fullname: str) -> str:
        """Without the name of the Python that builds it."""
        return os.path.join(*fullname.split(".")) + ".so"


LAUNCHER = "leakscope/launcher.c"
# Where there is no compiler: what the installer would make of the entry point. Python's variables reach its start then.
PLAIN = "#!python\nimport sys\nfrom leakscope.__main__ import main\nsys.exit(main())\n"


class BuildLauncher(build_scripts):
    """The command ``leakscope``: a program of C, that begins Python by ``-E``."""

    def run(self) -> None:
        os.makedirs(self.build_dir, exist_ok=True)
        target = os.path.join(self.build_dir, "leakscope")
        try:
            if IS_PURE:
                raise CCompilerError("a pure wheel is asked for")
            compiler = new_compiler()
            customize_compiler(compiler)
            with tempfile.TemporaryDirectory() as folder:
                objects = compiler.compile([LAUNCHER], output_dir=folder, extra_postargs=["-std=gnu11", "-O2"])
                compiler.link_executable(objects, target, extra_postargs=["-s"])
        except (CCompilerError, DistutilsError, OSError) as error:
            self.warn(f"the command is made as a script of Python: {error}")
            with open(target, "w") as stream:
                stream.write(PLAIN)
        os.chmod(target, 0o755)


class Wheel(bdist_wheel):
    def get_tag(self) -> Any:
        """For any Python 3."""
        return "py3", "none", "any" if IS_PURE else super().get_tag()[2]


def urls() -> dict[str, str]:
    """Of the forge that builds this: its actions say where they run."""
    server, repository = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    if not server or not repository:
        return {}
    home = f"{server}/{repository}"
    pages = {
        "Documentation": "/blob/main/docs/index.md",
        "Changelog": "/blob/main/CHANGELOG.md",
        "Issues": "/issues",
        "Security": "/security/policy",
    }
    return {"Source": home, **{name: home + path for name, path in pages.items()}}


setup(
    ext_modules=[] if IS_PURE else LIBRARIES,
    scripts=[LAUNCHER],
    project_urls=urls(),
    cmdclass={"build_ext": BuildLibrary, "build_scripts": BuildLauncher, "bdist_wheel": Wheel},
)
