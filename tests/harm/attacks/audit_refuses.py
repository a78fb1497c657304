"""A sandbox that refuses all that looks at other objects or opens files: what it refuses us is not the job's affair."""

import sys

from busy import rounds

armed = []
PREFIXES = ("gc.", "sys._", "open", "os.", "ctypes.", "object.", "code.", "import", "marshal.")


def refuse(event, arguments):
    if armed and event.startswith(PREFIXES) and "window" not in str(arguments[:1]):
        raise RuntimeError("refused: " + event)


sys.addaudithook(refuse)


def main():
    armed.append(True)
    total = 0
    for number in rounds():
        total += number & 1
    armed.clear()
    print(total > 0)


main()
