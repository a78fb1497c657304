"""A class body whose names are kept in a mapping of the job's own, and code that is executed in one."""

from busy import rounds

calls = []


class Names(dict):
    def __len__(self):
        calls.append("len")
        return dict.__len__(self)

    def __iter__(self):
        calls.append("iter")
        return dict.__iter__(self)

    def keys(self):
        calls.append("keys")
        return dict.keys(self)

    def items(self):
        calls.append("items")
        return dict.items(self)

    def values(self):
        calls.append("values")
        return dict.values(self)

    def get(self, *words):
        calls.append("get")
        return dict.get(self, *words)

    def copy(self):
        calls.append("copy")
        return self

    def clear(self):
        calls.append("clear")


class Other:
    """No dict at all: what it finds and keeps is its own affair."""

    def __init__(self):
        self._held = {}

    def __getitem__(self, name):
        return self._held[name]

    def __setitem__(self, name, value):
        self._held[name] = value

    def __getattr__(self, name):
        calls.append(name)
        raise AttributeError(name)

    def __len__(self):
        calls.append("len")
        return 0


class Meta(type):
    @classmethod
    def __prepare__(meta, name, bases):
        return Names()

    def __new__(meta, name, bases, namespace):
        seen = sorted(set(calls))
        cls = super().__new__(meta, name, bases, dict(dict.items(namespace)))
        cls.seen = seen
        return cls


class Long(metaclass=Meta):
    held = [[]]
    for number in rounds():
        held[0] = [number]


print(Long.seen, len(Long.held))
del calls[:]
exec("for number in rounds():\n    held = [number]", {"rounds": rounds}, Other())
print(sorted(set(calls)))
