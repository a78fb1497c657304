"""Somebody stands at the prompt of pdb and changes a variable."""

from busy import spin


def main():
    x, y = 1, [2]
    breakpoint()
    print("x is", x, "and y is", y)


main()
print(spin())
