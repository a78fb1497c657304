"""How often is a class asked for its hash, or whether it equals another? Nobody here does."""

from busy import rounds

calls = []


class Meta(type):
    def __hash__(cls):
        calls.append("hash")
        return 1

    def __eq__(cls, other):
        calls.append("eq")
        return cls is other

    def __instancecheck__(cls, instance):
        calls.append("isinstance")
        return False

    def __subclasscheck__(cls, subclass):
        calls.append("issubclass")
        return False

    def __getattribute__(cls, name):
        calls.append(name)
        return super().__getattribute__(name)

    def __len__(cls):
        calls.append("len")
        return 0


class Base(metaclass=Meta):
    def __init__(self, value=0):
        self.value = value


class Slotted(Base):
    __slots__ = ("more",)


def main():
    many = [Base(i) for i in range(5_000)]
    named = {i: Slotted() for i in range(5_000)}
    classes = [Base, Slotted]
    del calls[:]
    for _ in rounds():
        classes.reverse()
    found = sorted(set(calls))
    return len(many) + len(named), found


print(*main())
