"""How many members of a container are looked at, and which. Runs in the job."""

from collections import OrderedDict, defaultdict, deque
from itertools import islice

BIG_ATOM_BYTES = 4096  # from here on a named string has a line of its own
IDENTIFIER_KEYS = 32  # a dict of at most so many string keys is a record: its keys are names
VISIT_ALL = 256  # members of a container visited one by one
SAMPLE = 128  # members sampled of a larger one
SAMPLE_MIXED = 512  # the same of what a C object refers to: members of every kind
SAMPLE_NESTED = 12  # the same inside a sampled member, and of what libraries hold
RICH = (8000, 24000)  # visits after which a walk looks into fewer objects of each place
LARGEST = 8  # of containers in a container, the largest are always looked at: growth may sit in one of them
LARGEST_SCAN = 50000  # members among which the largest are searched (0.1 us each)
SIZED = frozenset((list, dict, set, bytearray, deque, defaultdict, OrderedDict, str, bytes))
GOLDEN = 0.6180339887498949


def spread(members, length, wanted, phase=0.0):
    """``wanted`` members, one from each of as many equal parts, the newest among them.

    Within its part a member is picked by the golden ratio: at even distances a container whose members alternate
    between kinds would show one kind only. ``phase`` (0 to 1) differs between containers: those that hold the same
    members must not show the same ones. Dicts and sets can only be iterated: 10 ns a member.
    """
    step = length / wanted
    positions = [int((i + (i * GOLDEN + phase) % 1.0) * step) for i in range(wanted - 1)]
    positions.append(length - 1)
    if type(members) in (list, tuple):
        return [members[position] for position in positions]
    if length > 4000000:  # 40 ms of iteration: take both ends instead
        head = list(islice(members, wanted // 2))
        try:
            return head + list(islice(reversed(members), wanted // 2))
        except TypeError:
            return head
    sample = []
    iterator = iter(members)
    at = 0
    for position in positions:
        sample += islice(iterator, position - at, position - at + 1)
        at = position + 1
    return sample
