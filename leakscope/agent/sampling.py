"""How many members of a container are looked at, and which. Runs in the job."""

from collections import OrderedDict, defaultdict, deque
from itertools import islice

from . import reading
from .names import ids_of

BIG_ATOM_BYTES = 4096  # from here on a named string has a line of its own
IDENTIFIER_KEYS = 32  # a dict of at most so many string keys is a record: its keys are names
VISIT_ALL = 256  # members of a container visited one by one
SAMPLE = 128  # members sampled of a larger one
SAMPLE_MIXED = 512  # the same of what a C object refers to: members of every kind
SAMPLE_NESTED = 12  # the same inside a sampled member, and of what libraries hold
RICH = (8000, 24000)  # visits after which a walk looks into fewer objects of each place
LARGEST = 8  # of containers in a container, the largest are always looked at: growth may sit in one of them
MOST_GONE_THROUGH = 4000000  # members, 40 ms
LARGEST_SCAN = 50000  # members among which the largest are searched (0.1 us each)
SIZED = ids_of(list, dict, set, bytearray, deque, defaultdict, OrderedDict, str, bytes)
GOLDEN = 0.6180339887498949


def positions_of(length, wanted, phase=0.0):
    """``wanted`` positions of ``length``, one in each of as many equal parts, the last among them.

    Within its part a member is picked by the golden ratio: at even distances a container whose members alternate
    between kinds would show one kind only. ``phase`` (0 to 1) differs between containers: those that hold the same
    members must not show the same ones.
    """
    step = length / wanted
    positions = [int((i + (i * GOLDEN + phase) % 1.0) * step) for i in range(wanted - 1)]
    positions.append(length - 1)
    return positions


def spread(own, wanted, phase=0.0):
    """Members of a list of ours at these positions."""
    return [own[position] for position in positions_of(len(own), wanted, phase)]


def picked(base, obj, length, wanted, phase=0.0):
    """Members of a list, tuple, set, frozenset, deque or dict (``base``) at these positions.

    What can only be gone through costs 10 ns a member.
    """
    if base is list or base is tuple:
        return reading.items_at(base, obj, positions_of(length, wanted, phase))
    forwards, backwards = reading.iterator(base, obj), reading.backwards(base, obj)
    if length > MOST_GONE_THROUGH:  # take both ends instead
        head = list(islice(forwards, wanted // 2))
        return head if backwards is None else head + list(islice(backwards, wanted // 2))
    sample = []
    at = 0
    for position in positions_of(length, wanted, phase):
        sample += islice(forwards, position - at, position - at + 1)
        at = position + 1
    return sample
