"""What VS Code starts: the debugger listens, nobody has come yet."""

import debugpy
from busy import rounds


def small(a, b, c):
    d = a + b + c
    return d


debugpy.listen(("127.0.0.1", 0))
right = True
for number in rounds():
    right = right and small(number, 1, 2) == number + 3
print(right)
