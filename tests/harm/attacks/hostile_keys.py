"""Keys and members that can be neither hashed nor compared once they are where they are."""

from collections import Counter, OrderedDict, defaultdict

from busy import rounds

armed, calls = [], []


class Key:
    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        if armed:
            calls.append("hash")
            raise ValueError("do not hash me")
        return self.number % 97

    def __eq__(self, other):
        if armed:
            calls.append("eq")
            raise ValueError("do not compare me")
        return self is other

    def __bool__(self):
        calls.append("bool")
        raise ValueError("I am neither")

    def __repr__(self):
        calls.append("repr")
        raise ValueError("I have no name")


class Text(str):
    def __hash__(self):
        if armed:
            calls.append("hash of str")
        return str.__hash__(self)

    def __eq__(self, other):
        if armed:
            calls.append("eq of str")
        return str.__eq__(self, other)


class Plain:
    pass


def main():
    made = []
    for kind in (dict, OrderedDict, Counter, lambda: defaultdict(list)):
        for length in (3, 900):
            held = kind()
            for number in range(length):
                held[Key(number)] = 1 if kind is Counter else [number]
            made.append(held)
    sets = [set(map(Key, range(900))), frozenset(map(Key, range(3)))]
    plain = Plain()
    plain.__dict__.update((Text("name%d" % i), [i]) for i in range(20))
    globals().update((Text("global%d" % i), [i]) for i in range(20))
    armed.append(True)
    for _ in rounds():
        pass
    armed.clear()
    return len(made) + len(sets) + len(plain.__dict__)


print(main(), sorted(set(calls)))
