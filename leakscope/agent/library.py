"""Loads the agent, and for it the standard library, from their own places: nothing of the job's answers. Runs in it.

A program may have a ``resource.py`` or a ``types.py``, beside its script or on PYTHONPATH. ``import resource`` has to
give the program its own, as without us, and the agent Python's. So modules that the agent imports are kept in a table
of its own, and import each other from there. ``sys.modules`` lists them only where the program itself has imported
them, and then they are shared; what is built into the interpreter always is. Nobody's finders are asked, no time is
printed by ``-X importtime``, and the interpreter, as it ends, does not come by what may still run on our thread.

This file is executed by ``sitecustomize`` before there is anything to import it with.
"""

import _imp
import builtins
import posix
import sys
from _frozen_importlib import BuiltinImporter, ModuleSpec
from _frozen_importlib_external import SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType  # noqa: F401  (in comments: there is no __future__ to import yet)
    from typing import Any, Dict, List, Optional, Sequence, Set, Tuple  # noqa: F401

NAME = "_leakscope_agent"
_Module = type(sys)
_CODE, _EXTENSION, _PACKAGE = "code", "extension", "package"
_DIRECTORY, _REGULAR, _KIND = 0o040000, 0o100000, 0o170000
# Here modules are registered, or looked up in ``sys.modules``, by their names. A module of ours must not meet the
# program's there, which it may be importing just now: ``re`` would write its flags into the program's and lack them
# itself, and have patterns of the program's pickled by a function that is not in its ``re``.
_BY_NAME = ("enum", "copyreg")


class Library:
    """``folder``: above the agent's. ``code``: what ``sitecustomize`` found compiled, {name: (file, is it a package,
    marshalled code)}."""

    def __init__(self, folder, code):
        # type: (str, Optional[Dict[str, Tuple[str, bool, Any]]]) -> None
        self._folder = folder
        self._code = code or {}
        self._modules = {"sys": sys, "builtins": builtins}  # type: Dict[str, Any]
        self._private = set()  # type: Set[str]
        self._path = _standard_path()
        self._builtins = dict(builtins.__dict__, __import__=self._import)
        self._sys = None  # type: Optional[ModuleType]
        self._listed = []  # type: List[str]

    def start(self):
        # type: () -> None
        """**Errors** any: then there is no agent."""
        sys.modules[NAME] = self._load(NAME)
        try:
            self._modules[NAME].start(self._folder)
        except BaseException:
            sys.modules.pop(NAME, None)  # without this the next import of the half-made module would succeed
            raise
        finally:
            self._code = {}
            if _is_timed():  # what the program imports is printed: it has to find nothing imported before
                for name in self._listed:
                    sys.modules.pop(name, None)
        if "ctypes" in self._modules:
            keep = self._modules["ctypes"].pythonapi["Py_IncRef"]
            keep.argtypes = (self._modules["ctypes"].py_object,)
            keep(self)  # and with it all that is in the table, while the interpreter ends

    # ---- what the statement ``import`` calls

    def _import(self, name, space=None, _locals=None, fromlist=(), level=0):
        # type: (str, Any, object, Optional[Sequence[str]], int) -> Any
        if level:
            package = space["__package__"].rsplit(".", level - 1)[0]
            name = package + "." + name if name else package
        elif name == "sys" and space["__name__"] in self._private:
            return self._sys_of_ours()
        module = self._load(name)
        if not fromlist:
            return self._modules[name.partition(".")[0]]
        if "__path__" in module.__dict__:
            for each in fromlist:
                if each != "*" and each not in module.__dict__:
                    try:
                        self._load(name + "." + each)
                    except ModuleNotFoundError:
                        pass  # of what is missing the statement says so itself
        return module

    def _load(self, name):
        # type: (str) -> Any
        if name in self._modules:
            return self._modules[name]
        above, _, tail = name.rpartition(".")
        if above:
            self._load(above)
        module = None if name in _BY_NAME else _shared(name, self._path)
        if module is None and _imp.is_builtin(name):
            module = self._built_in(name)
        if module is None:
            module = self._loaded(name)
            if above in self._private or above.partition(".")[0] == NAME:
                setattr(self._modules[above], tail, module)
        self._modules[name] = module
        return module

    def _built_in(self, name):
        # type: (str) -> Any
        """Nothing can stand in for it: the program gets the same one."""
        spec = ModuleSpec(name, BuiltinImporter, origin="built-in")  # type: ignore[arg-type]
        module = BuiltinImporter.create_module(spec)  # type: Any
        for attribute, value in (("__spec__", spec), ("__loader__", BuiltinImporter), ("__package__", "")):
            module.__dict__[attribute] = value
        sys.modules[name] = module
        self._listed.append(name)
        BuiltinImporter.exec_module(module)
        return module

    def _loaded(self, name):
        # type: (str) -> Any
        if name == "__future__":  # a directive to the compiler, and nobody reads what it imports
            module = _Module(name)
            module.annotations = None  # type: ignore[attr-defined]
            return module
        kind, file, code = self._found(name)
        spec = ModuleSpec(name, None, origin=file, is_package=kind == _PACKAGE)
        if kind == _EXTENSION:
            return self._extension(name, file, spec)
        module = _Module(name)
        package = name if kind == _PACKAGE else name.rpartition(".")[0]
        given = {"__spec__": spec, "__loader__": None, "__package__": package, "__builtins__": self._builtins}
        module.__dict__.update(given, __file__=file)
        if kind == _PACKAGE:
            module.__dict__["__path__"] = [file.rpartition("/")[0]]
        if name.partition(".")[0] != NAME:
            self._private.add(name)
        self._modules[name] = module
        try:
            exec(code, module.__dict__)  # type: ignore[arg-type]
        except BaseException:
            self._modules.pop(name, None)
            self._private.discard(name)
            raise
        return module

    def _extension(self, name, file, spec):
        # type: (str, str, Any) -> Any
        listed = sys.modules.get(name, self)  # the interpreter lists those of an older kind by itself
        spec.origin = file
        try:
            module = _imp.create_dynamic(spec)
            _imp.exec_dynamic(module)
        finally:
            if listed is self:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = listed  # type: ignore[assignment]
        return module

    # ---- where it is

    def _found(self, name):
        # type: (str) -> Tuple[str, str, Optional[CodeType]]
        """(what it is, its file, its code). **Errors** ModuleNotFoundError."""
        if name in self._code:
            import marshal

            file, is_package, data = self._code[name]
            file = self._folder + "/agent/" + file
            code = marshal.loads(data)
            _imp._fix_co_filename(code, file)  # type: ignore[attr-defined]
            return _PACKAGE if is_package else _CODE, file, code
        above, _, tail = name.rpartition(".")
        if name == NAME:
            folders, tail = [self._folder], "agent"
        else:
            folders = self._modules[above].__dict__.get("__path__", ()) if above else self._path
        for folder in folders:
            found = _in_folder(name, folder, tail)
            if found is not None:
                return found
        if _imp.is_frozen(name):  # an interpreter with its library inside
            kind = _PACKAGE if _imp.is_frozen_package(name) else _CODE
            return kind, "<frozen " + name + ">", _imp.get_frozen_object(name)
        raise ModuleNotFoundError("No module named '%s'" % name, name=name)

    def _sys_of_ours(self):
        # type: () -> ModuleType
        """For modules of the library that look each other up in ``sys.modules``, as ``enum`` does: in our table."""
        if self._sys is None:
            self._sys = _Module("sys")
            plain = (str, int, type(len), type(sys.flags), type(sys.version_info), type(sys.implementation))
            kept = {name: value for name, value in sys.__dict__.items() if type(value) in plain}
            self._sys.__dict__.update(kept, modules=self._modules)
        return self._sys


def _standard_path():
    # type: () -> List[str]
    """Folders of ``sys.path`` that have Python's own library, in their order; ``os`` is from there."""
    library = sys.modules["os"].__file__.rpartition("/")[0]  # type: ignore[union-attr]
    archive = "/python%d%d.zip" % sys.version_info[:2]
    return [
        folder
        for folder in sys.path
        if folder == library or folder.endswith(("/lib-dynload", archive)) or folder.startswith(library + "/build/")
    ]


def _shared(name, path):
    # type: (str, List[str]) -> Any
    """What the program, or Python itself, has loaded already, if that is Python's own; else None."""
    module = sys.modules.get(name)
    if type(module) is not _Module:
        return None
    spec = module.__dict__.get("__spec__")
    if type(spec) is not ModuleSpec or spec.__dict__.get("_initializing"):
        return None
    origin = spec.__dict__.get("origin")
    if origin in ("built-in", "frozen"):
        return module
    return module if type(origin) is str and any(origin.startswith(folder + "/") for folder in path) else None


def _in_folder(name, folder, tail):
    # type: (str, str, str) -> Optional[Tuple[str, str, Optional[CodeType]]]
    if _kind_of(folder) != _DIRECTORY:
        return _in_archive(name, folder)
    base = folder + "/" + tail
    for stem, kind in ((base + "/__init__", _PACKAGE), (base, _CODE)):
        if kind == _CODE:
            for suffix in _imp.extension_suffixes():
                if _kind_of(base + suffix) == _REGULAR:
                    return _EXTENSION, base + suffix, None
        if _kind_of(stem + ".py") == _REGULAR:
            return kind, stem + ".py", SourceFileLoader(name, stem + ".py").get_code(name)
        if _kind_of(stem + ".pyc") == _REGULAR:
            import marshal

            code = marshal.loads(SourceFileLoader(name, stem + ".pyc").get_data(stem + ".pyc")[16:])
            return kind, stem + ".pyc", code
    return None


def _in_archive(name, folder):
    # type: (str, str) -> Optional[Tuple[str, str, Optional[CodeType]]]
    zipimport = sys.modules.get("zipimport")  # the interpreter itself has loaded it
    if zipimport is None or ".zip" not in folder:
        return None
    try:
        archive = zipimport.zipimporter(folder)
        code = archive.get_code(name.rpartition(".")[2])
        kind = _PACKAGE if archive.is_package(name.rpartition(".")[2]) else _CODE
        return kind, archive.get_filename(name.rpartition(".")[2]), code
    except ImportError:
        return None


def _kind_of(file):
    # type: (str) -> int
    try:
        return posix.stat(file).st_mode & _KIND
    except OSError:
        return 0


def _is_timed():
    # type: () -> bool
    asked = not sys.flags.ignore_environment and posix.environ.get(b"PYTHONPROFILEIMPORTTIME")
    return bool(asked) or bool(sys._xoptions.get("importtime"))
