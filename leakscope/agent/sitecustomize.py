"""All that is put on the job's PYTHONPATH: starts the agent, then makes way for the sitecustomize it shadows.

Python 2 finds it, too: its types stand in comments.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple  # noqa: F401  (in comments of Python 2)


def _start():
    # type: () -> str
    import os

    boot = os.path.dirname(os.path.abspath(__file__))
    if "_leakscope_agent" not in sys.modules and not sys.flags.verbose and _is_main_interpreter():
        _begin(os.path.dirname(boot))
    return boot


def _begin(above):
    # type: (str) -> None
    if sys.version_info < (3, 8) or sys.implementation.name != "cpython":
        return _refuse(above)
    import marshal
    from _frozen_importlib_external import SourceFileLoader

    name, file = "_leakscope_agent.library", above + "/agent/library.py"
    code = _compiled(above)
    space = {"__name__": name, "__file__": file}  # type: Dict[str, Any]
    body = marshal.loads(code[name][2]) if code else SourceFileLoader(name, file).get_code(name)  # type: Any
    exec(body, space)
    space["Library"](above, code).start()


def _compiled(above):
    # type: (str) -> Optional[Dict[str, Tuple[str, bool, Any]]]
    """All modules of ours in one file, where the recorder made one for this interpreter: looking for 70 takes three
    times as long. {name: (file, is it a package, marshalled code)}; None: another Python, from its sources."""
    try:
        import marshal
        from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader

        file = above + "/code-" + MAGIC_NUMBER.hex()
        data = memoryview(SourceFileLoader("", file).get_data(file))
        index = marshal.loads(data)  # distances from the end
        return {
            name: (path, is_package, data[len(data) - at : len(data) - at + size])
            for name, (path, is_package, at, size) in index.items()
        }
    except Exception:
        return None


def _refuse(above):
    # type: (str) -> None
    """Have our package say why it does not begin in this Python."""
    from importlib.util import module_from_spec, spec_from_file_location

    name, folder = "_leakscope_agent", above + "/agent"
    spec = spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])  # type: Any
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        module.start(above)
    except BaseException:
        sys.modules.pop(name, None)  # without this the next import of the half-made module would succeed
        raise


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


if __name__ == "sitecustomize":  # not where a process that runs already is entered
    try:
        _boot = _start()  # type: Optional[str]
    except Exception:
        import os as _os

        _boot = _os.path.dirname(_os.path.abspath(__file__))
    _make_way(_boot)
