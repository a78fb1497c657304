# holder: rows, main, local, list
def sixth(f, x):
    f.append(x)  # HERE


def fifth(e, x):
    sixth(e, x)


def fourth(d, x):
    fifth(d, x)


def third(c, x):
    fourth(c, x)


def second(b, x):
    third(b, x)


def first(a, x):
    second(a, x)


def main():
    rows = []
    while True:
        first(rows, 1)
