"""All that is put on the job's PYTHONPATH: starts the agent, then makes way for the sitecustomize it shadows.

Python 2 finds it, too: its types stand in comments.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple  # noqa: F401  (in comments of Python 2)


class _Compiled(object):
    """Finds our modules in one file, where the recorder made one for this interpreter: looking for 70 takes three times
    as long. ``code``: {name: (file, is it a package, marshalled code)}.
    """

    def __init__(self, folder, code):
        # type: (str, Dict[str, Tuple[str, bool, bytes]]) -> None
        self._folder = folder
        self._code = code

    def find_spec(self, name, path=None, target=None):
        # type: (str, object, object) -> Any
        from _frozen_importlib_external import spec_from_file_location

        if name not in self._code:
            return None
        file, is_package, _ = self._code[name]
        file = self._folder + "/" + file
        inside = [file.rpartition("/")[0]] if is_package else None
        return spec_from_file_location(name, file, loader=self, submodule_search_locations=inside)  # type: ignore[arg-type]

    def create_module(self, spec):
        # type: (object) -> None
        return None

    def exec_module(self, module):
        # type: (Any) -> None
        import _imp
        import marshal

        code = marshal.loads(self._code[module.__name__][2])
        _imp._fix_co_filename(code, module.__spec__.origin)  # type: ignore[attr-defined]
        exec(code, module.__dict__)


def _start():
    # type: () -> str
    import os

    boot = os.path.dirname(os.path.abspath(__file__))
    above = os.path.dirname(boot)
    if "_leakscope_agent" not in sys.modules and _is_main_interpreter():
        finder = _compiled(above)
        try:
            if finder is not None:
                sys.meta_path.insert(0, finder)
            _begin(above, finder)
        except BaseException:
            # Without this the next import of the half-made module would succeed.
            sys.modules.pop("_leakscope_agent", None)
            raise
        finally:
            if finder is not None:
                sys.meta_path[:] = [other for other in sys.meta_path if other is not finder]
                finder._code.clear()
    return boot


def _begin(above, finder):
    # type: (str, Optional[_Compiled]) -> None
    try:  # the half of importlib that each interpreter has loaded; importlib.util costs 1 to 3 ms
        from _frozen_importlib import module_from_spec
        from _frozen_importlib_external import spec_from_file_location
    except ImportError:
        from importlib.util import module_from_spec, spec_from_file_location

    name, folder = "_leakscope_agent", above + "/agent"
    if finder is not None:
        spec = finder.find_spec(name)
    else:
        spec = spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    module.start(above)


def _compiled(above):
    # type: (str) -> Optional[_Compiled]
    try:
        import marshal
        from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader

        file = above + "/code-" + MAGIC_NUMBER.hex()
        code = marshal.loads(SourceFileLoader("", file).get_data(file))  # opened as what is imported is
    except Exception:
        return None  # another Python: from its source
    return _Compiled(above + "/agent", code)


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
