# holder: closing, Gateway, attribute, asyncio.locks.Event
import asyncio


class Gateway:
    def __init__(self):
        self.closing = asyncio.Event()

    async def handle(self, job):
        stop = asyncio.ensure_future(self.closing.wait())  # HERE
        await asyncio.wait({job, stop}, return_when=asyncio.FIRST_COMPLETED)


async def main():
    gateway = Gateway()
    while True:
        await gateway.handle(1)
    gateway.closing.set()
