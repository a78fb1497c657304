"""Arrays, tensors and tables of those libraries that are there: whose memory they are, and whose they are not."""

import array
import gc
import os
import tempfile

import look

held = {}


def made_of_numpy():
    import numpy

    class Kind(numpy.ndarray):
        pass

    base = numpy.zeros((100, 50))
    found = [
        base, numpy.array(3), numpy.array(None), base[3:9], base[::-1], base.T, numpy.zeros((9, 7), order="F"),
        numpy.zeros((0, 5)), numpy.array([[1], {}, None], dtype=object), base.view(Kind), Kind((3, 4)),
        numpy.broadcast_to(base[0], (1000, 50)), numpy.lib.stride_tricks.as_strided(base, (5, 5), (0, 0)),
        numpy.zeros(5, dtype=[("a", "i4"), ("b", "O")]), numpy.frombuffer(bytearray(80)),
        numpy.ma.masked_array([1, 2], [0, 1]),
        numpy.float64(3), numpy.str_("text"), numpy.zeros(3, dtype="U9"), numpy.rec.array([(1, 2.0)]),
        numpy.nditer(base),
        numpy.random.RandomState(1), numpy.asarray(array.array("d", [1, 2])), numpy.empty((1,) * 30),
        Kind.__new__(Kind, 3),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        mapped = numpy.memmap(os.path.join(folder, "odd"), dtype="f4", mode="w+", shape=(50, 50))
        found += [mapped, mapped[3:], numpy.asarray(mapped)]
        del mapped
    resized = numpy.zeros(10)
    resized.resize(1000, refcheck=False)
    state = numpy.zeros(3)
    state.__setstate__(numpy.zeros((2, 2)).__reduce__()[2])
    return [*found, resized, state]


def shaped_oddly():
    """Arrays whose strides, or whose bases, say other than their memory; each of so many rows that some are copied."""
    import numpy

    many = 5000
    found = [numpy.empty((0, 1), dtype=object), numpy.empty((many, 0), dtype="U9"), numpy.zeros(many, dtype="S0")]
    for kind in ("U9", "S70", object, "i8", "i2", "f8"):
        # What has one column has any stride from one to the next, and counts as without gaps.
        row = numpy.zeros((1, many), dtype=kind)
        row[:] = {"U9": "row", "S70": b"row", object: None}.get(kind, 7)
        found += [row.T, row[::-1], row.T[::-1], row[:, ::7], row.T[:, ::-1]]
        column = numpy.zeros((many, 1), dtype=kind)
        found += [column, column.T, column[::-3], column[:, None], numpy.broadcast_to(column[3], (many, 1))]
        # Of one member, too, which the next is far from.
        for stride in (0, -8, 8000, 1 << 40):
            try:
                found.append(numpy.ndarray((1,), dtype=kind, strides=(stride,)))
                found.append(numpy.ndarray((1, 1), dtype=kind, strides=(stride, stride)))
            except ValueError:
                pass
        # Memory that its owner has given back: whoever shows it still was not asked.
        owner = numpy.zeros(many * 40, dtype=kind)
        found.append(owner[:])
        owner.resize(many * 20, refcheck=False)
        for shape, less in ((many, 3), ((many, 4), (2, 2)), (many, many * 100), (3, many)):
            owner = numpy.zeros(shape, dtype=kind)
            shown = [owner[:], owner[::2], owner.T, owner[1:-1]]
            owner.resize(less, refcheck=False)
            found += look.choose.choice([shown, [owner, *shown], [shown, owner[:]]])
        owner = numpy.zeros(many, dtype=kind)
        shown = [owner[:], owner.reshape(-1, 5), owner[5:]]
        other = look.choose.choice([numpy.zeros(3), numpy.arange(1, many), numpy.ones(many, dtype="f8")])
        owner.__setstate__(other.__reduce__()[2])
        found += [owner, shown, owner[:]] if look.choose.random() < 0.5 else [shown]
    return found


def made_of_torch():
    import torch

    base = torch.zeros(100, 50)
    weight = torch.nn.Parameter(torch.ones(5, 5))
    graph = (weight @ torch.ones(5, 5)).sum()
    graph.backward()
    found = [
        base, base[3:], base.t(), base.view(-1), base.detach(), torch.tensor(3), torch.empty(0),
        torch.empty(5, device="meta"),
        torch.zeros(5, 5).to_sparse(), torch.zeros(5, 5).to_sparse_csr(), weight, weight.grad, graph, torch.from_numpy,
        torch.nn.Linear(4, 4), torch.optim.Adam([weight]), base.untyped_storage(), torch.zeros(5).expand(9, 5),
        torch.Tensor._make_subclass(type("Kind", (torch.Tensor,), {}), torch.ones(3)), torch.Generator(),
        torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8), torch.nested.nested_tensor([torch.ones(2)]),
        torch.Tensor.__new__(torch.Tensor), base.storage(),
    ]  # fmt: skip
    swapped = torch.ones(10)
    swapped.data = torch.ones(20)
    swapped.set_(base.untyped_storage(), 0, (5,))
    shrunk = torch.ones(100)
    shrunk.untyped_storage().resize_(0)
    return [*found, swapped, shrunk]


def made_of_pandas():
    import pandas

    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None], "c": pandas.Categorical(["u", "v"])})
    return [
        frame,
        frame["a"],
        frame.T,
        frame.groupby("a"),
        frame.index,
        pandas.Timestamp(0),
        pandas.date_range("2000", periods=9),
    ]


def made_of_arrow():
    import pyarrow

    table = pyarrow.table({"a": [1, 2], "b": [["x"], None]})
    return [table, table["a"], table.schema, pyarrow.array(range(1000)).slice(3), pyarrow.py_buffer(b"x" * 100)]


def made_of_lxml():
    from lxml import etree

    tree = etree.XML("<a><b>text</b><c/></a>")
    return [tree, tree[0], etree.XMLPullParser(("start",)), etree.iterwalk(tree)]


MAKERS = [made_of_numpy, shaped_oddly, made_of_torch, made_of_pandas, made_of_arrow, made_of_lxml]


def made():
    found = []
    for make in MAKERS:
        try:
            found += make()
        except ImportError:
            pass
    look.choose.shuffle(found)
    return found


def in_an_array(numpy, *members):
    array = numpy.empty(len(members), dtype=object)
    for place, member in enumerate(members):
        array[place] = member
    return array


class Looks(object):
    def __del__(self):
        look.here()


def replaced():
    """Numpy lets go of an object before another is in its place; of a list what is last goes first."""
    try:
        import numpy
    except ImportError:
        return
    array = numpy.empty(5, dtype=object)
    table = numpy.empty((3, 2), dtype=object)
    held["replaced"] = array, table
    makers = (  # nothing else may hold what they make
        lambda: [Looks(), ["freed"], {"freed": [[]]}, bytearray(100)],
        lambda: (Looks(), ["freed"], "freed" * 9),
        lambda: {"a": Looks(), "b": ["freed" * 9]},
        lambda: {Looks(): [1], "c": [2]},
        lambda: [[[Looks(), bytearray(5)], bytearray(7)], bytearray(9)],
        lambda: in_an_array(numpy, ["freed" * 9], Looks(), {"freed": [[]]}, Looks(), [bytearray(7)]),
        lambda: in_an_array(numpy, in_an_array(numpy, ["freed"], Looks(), ["freed"]), Looks()),
        lambda: [in_an_array(numpy, ["freed"], Looks(), ["freed"]), Looks()],
    )
    for place in (0, 3, 4):
        for make in makers:
            array[place] = make()
            array[place] = look.choose.choice([None, 5, "other", []])
            table[place % 3, 1] = make()
            table[place % 3, 1] = None
    del held["replaced"]


made()  # what it imports is there from now on
look.begin()
for number in range(4):
    held["made"] = made()
    look.here()
    del held["made"][::2]
    gc.collect()
    look.here()
replaced()
look.between()
look.beside()
look.end(len(held))
