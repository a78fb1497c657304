"""Generators, coroutines and asynchronous generators that run in other threads, at whatever place they are."""

import asyncio
import sys
import threading

from busy import spin

stop = False


def inner(depth):
    held = [depth]
    if depth:
        yield from inner(depth - 1)
    for number in range(5):
        held[0] = number
        yield number


def generate():
    total = 0
    while not stop:
        total += sum(inner(8))
        chain = inner(5)
        next(chain)
        total += next(chain)
    finished.append(total > 0)


async def wait(depth):
    held = [depth]
    if depth:
        await wait(depth - 1)
    else:
        await asyncio.sleep(0)
    return held


async def numbers():
    for number in range(5):
        await asyncio.sleep(0)
        yield [number]


async def work():
    while not stop:
        await wait(8)
        async for number in numbers():
            await asyncio.gather(wait(2), wait(number[0]))
        made = [one async for one in numbers()]
        del made
    finished.append(True)


finished = []
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=generate) for _ in range(2)]
threads += [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(2)]
for thread in threads:
    thread.start()
print(spin())
stop = True
for thread in threads:
    thread.join()
print(finished)
