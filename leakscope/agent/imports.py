"""Be called when a module has been imported, without importing it and without a trace left on it. Runs in the job."""

import sys


def after_import(callbacks):
    """``callbacks``: {module name: function of the module}. Those already loaded are called now.

    A callback runs under the import lock, inside the import statement of the job: it may only register things.
    """
    waiting = {}
    for name, callback in callbacks.items():
        module = sys.modules.get(name)
        if module is not None:
            callback(module)
        else:
            waiting[name] = callback
    if waiting:
        sys.meta_path.insert(0, _AfterImport(waiting))


class _AfterImport(object):
    """A finder that finds nothing: it lets modules be found as ever and calls back when their code has run."""

    def __init__(self, callbacks):
        self._callbacks = callbacks

    def find_spec(self, name, path=None, target=None):
        callback = self._callbacks.pop(name, None)
        if callback is None:
            return None
        if not self._callbacks:
            try:
                sys.meta_path.remove(self)
            except ValueError:
                return None
        spec = None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            if find is not None:
                spec = find(name, path, target)
                if spec is not None:
                    break
        loader = None if spec is None else spec.loader
        original = getattr(loader, "exec_module", None)
        if original is None:
            return spec

        def exec_module(module):
            del loader.exec_module  # the loader is as it was before its module runs
            original(module)
            try:
                callback(module)
            except Exception:
                pass

        try:
            loader.exec_module = exec_module
        except Exception:
            pass  # a loader that takes no attributes: nobody is called
        return spec
