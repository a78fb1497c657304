"""Becomes a daemon by two forks, with nothing of its parent's open, and works on; its first process waits for it."""

import os

from busy import rounds

place = os.getcwd()
told, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    os.chdir("/")
    os.umask(0o077)
    for number in range(4096):
        if number != tell:
            try:
                os.close(number)
            except OSError:
                pass
    got = [os.open(os.devnull, os.O_RDWR), os.dup(0), os.dup(0)]
    total = 0
    for number in rounds():
        held = [[one] for one in range(3000)]
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(300)]
    with open(os.path.join(place, "result"), "w") as stream:
        print(
            got,
            opened[:100] == [number for number in range(3, 104) if number != tell],
            os.getsid(0) != os.getpid(),
            file=stream,
        )
    os._exit(0)
os.close(tell)
print(os.wait()[1], os.read(told, 1))
print(open("result").read())
