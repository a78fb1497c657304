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


MAKERS = [made_of_numpy, made_of_torch, made_of_pandas, made_of_arrow, made_of_lxml]


def made():
    found = []
    for make in MAKERS:
        try:
            found += make()
        except ImportError:
            pass
    look.choose.shuffle(found)
    return found


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
    for place in (0, 3, 4):
        for one in (
            [Looks(), ["freed"], {"freed": [[]]}, bytearray(100)],
            (Looks(), ["freed"], "freed" * 9),
            {"a": Looks(), "b": ["freed" * 9]},
            {Looks(): [1], "c": [2]},
            [[[Looks(), bytearray(5)], bytearray(7)], bytearray(9)],
        ):
            array[place] = table[place % 3, 1] = one
            table[place % 3, 1] = None
            del one
            array[place] = look.choose.choice([None, 5, "other", []])
    del held["replaced"]


made()  # what it imports is there from now on
look.begin()
for number in range(4):
    held["made"] = made()
    look.here(beyond=number == 2)
    del held["made"][::2]
    gc.collect()
    look.here()
replaced()
look.between()
look.beside()
look.end(len(held))
