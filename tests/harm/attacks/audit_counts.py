"""A hook of ``sys.addaudithook`` is told of what the program does, which here is nothing."""

import sys

from busy import rounds

seen, armed = set(), []
sys.addaudithook(lambda event, arguments: seen.add(event) if armed else None)


def main():
    armed.append(True)
    for number in rounds():
        if number == 0:
            seen.clear()
    armed.clear()
    seen.discard("open")  # the note of when this was
    print(sorted(seen))


main()
