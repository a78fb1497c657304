# holder: job, handle, task, coroutine
import asyncio
async def handle(message):
    await asyncio.sleep(3600)
async def main():
    while True:
        asyncio.ensure_future(handle(1))  # HERE
