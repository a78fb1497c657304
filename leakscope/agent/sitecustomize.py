"""All that is put on the job's PYTHONPATH: starts the agent, then makes way for the sitecustomize it shadows.

Python 2 finds it, too: its types stand in comments.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional  # noqa: F401  (in a comment of Python 2)


def _start():
    # type: () -> str
    import os

    try:  # the half of importlib that each interpreter has loaded; importlib.util costs 1 to 3 ms
        from _frozen_importlib import module_from_spec
        from _frozen_importlib_external import spec_from_file_location
    except ImportError:
        from importlib.util import module_from_spec, spec_from_file_location

    boot = os.path.dirname(os.path.abspath(__file__))
    above = os.path.dirname(boot)
    if "_leakscope_agent" not in sys.modules and _is_main_interpreter():
        folder = os.path.join(above, "agent")
        spec = spec_from_file_location(
            "_leakscope_agent", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        module = module_from_spec(spec)  # type: ignore[arg-type]
        sys.modules["_leakscope_agent"] = module
        try:
            spec.loader.exec_module(module)  # type: ignore[union-attr]
            module.start(above)
        except BaseException:
            # Without this the next import of the half-made module would succeed.
            sys.modules.pop("_leakscope_agent", None)
            raise
    return boot


def _is_main_interpreter():
    # type: () -> bool
    """``site`` runs in every interpreter of a process. In others, and in other threads, this may not be set."""
    import _signal

    try:
        _signal.set_wakeup_fd(-1)  # as it is now
    except ValueError:
        return False
    return True


def _make_way(boot):
    # type: (Optional[str]) -> None
    """Run the sitecustomize that would have been found without ours; without one, stay (site insists on the name)."""
    import os

    ours = sys.modules.pop("sitecustomize", None)
    kept = list(sys.path)
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != boot]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", str(error).rpartition(" ")[2]) != "sitecustomize":  # Python 2 has no name
            raise  # theirs is there and broken: it fails as it would without us
        if ours is not None:
            sys.modules["sitecustomize"] = ours
    del kept


_boot = None  # type: str | None
try:
    _boot = _start()
except Exception:
    import os as _os

    _boot = _os.path.dirname(_os.path.abspath(__file__))
_make_way(_boot)
