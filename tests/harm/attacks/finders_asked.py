"""A finder of a library that asks all others, in each way that Python allows, in an import every time."""

import sys

from busy import rounds


class Delegates:
    def find_spec(self, fullname, path, target=None):
        others = [finder for finder in sys.meta_path if finder is not self]
        ways = [
            lambda find: find(fullname, path),
            lambda find: find(fullname, path, target=target),
            lambda find: find(fullname=fullname, path=path),
        ]
        for ask in ways:
            found = [ask(finder.find_spec) for finder in others]
        return next(filter(None, found), None)


sys.meta_path.insert(0, Delegates())
failed = set()
for number in rounds():
    sys.modules.pop("colorsys", None)
    try:
        import colorsys

        assert colorsys.rgb_to_hsv(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
    except Exception as error:
        failed.add(repr(error))
print(sorted(failed))
