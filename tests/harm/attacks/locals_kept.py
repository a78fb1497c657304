"""A function whose arguments are all it has: whoever takes them away is found out at once."""

from busy import rounds


def small(a, b, c):
    d = a + b + c
    return d


right = True
for number in rounds():
    right = right and small(number, 1, 2) == number + 3
print(right)
