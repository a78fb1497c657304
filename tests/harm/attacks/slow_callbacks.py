"""asyncio's debug mode tells of callbacks that take long, and of coroutines that nobody has awaited."""

import asyncio
import logging
import sys
import time
import warnings

from busy import rounds

logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(levelname)s %(name)s")
warnings.simplefilter("always")


async def never():
    pass


async def main():
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = 0.5  # on a busy machine much takes long
    before = len(asyncio.all_tasks())
    for number in rounds():
        [[one] for one in range(3000)]
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(20)))
        if number == 3:
            never()
        if number == 5:
            time.sleep(0.6)
    return before, len(asyncio.all_tasks())


print(asyncio.run(main(), debug=True))
