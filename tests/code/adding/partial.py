# holder: out, main, local, list
from functools import partial


def keep(sink, x):
    sink.append(x)  # HERE


def main(stream):
    out = []
    stream.each(partial(keep, out))
