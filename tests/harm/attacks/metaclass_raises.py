"""Classes that cannot be hashed or compared, and instances of them everywhere."""

from busy import rounds

armed = []


class Meta(type):
    def __hash__(cls):
        if armed:
            raise ValueError("do not hash my class")
        return 1

    def __eq__(cls, other):
        if armed:
            raise ValueError("do not compare my class")
        return cls is other


class Base(metaclass=Meta):
    def __init__(self, value=0):
        self.value = value


class Slotted(Base):
    __slots__ = ("more",)


class Listed(list, metaclass=Meta):
    pass


def main():
    few = [Base(i) for i in range(20)]
    many = [Base(i) for i in range(5_000)]
    named = {i: Slotted() for i in range(5_000)}
    lists = [Listed([Base()]) for _ in range(500)]
    classes = [Base, Slotted, Listed]
    made = []
    armed.append(True)
    for number in rounds():
        made.append(type(few[number % 20])())
        if len(made) > 5_000:
            del made[:]
    armed.clear()
    return len(few) + len(many) + len(named) + len(lists) + len(classes)


print(main(), "survived")
