"""Closes every descriptor above 2, as daemons do, and uses their numbers for files of its own. An argument: traced."""

import os
import sys

from busy import rounds

if "traced" in sys.argv:
    sys.settrace(lambda *_: None)
os.closerange(3, 4096)
names = ["own-%d" % number for number in range(250)]
files = [open(name, "w+") for name in names]
numbers = [file.fileno() for file in files]
for number in rounds():
    held = [[one] for one in range(3000)]
    if number % 20 == 0:
        os.closerange(300, 4096)
    files[number % 250].write("%d\n" % (number % 250))
wrong = []
for number, file in enumerate(files):
    file.seek(0)
    wrong += [name for name in file.read().split() if name != str(number)]
    file.close()
    os.remove(names[number])
print(numbers[:150] == list(range(numbers[0], numbers[0] + 150)), wrong)
