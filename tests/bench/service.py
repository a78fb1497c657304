"""What recording does to the latency of a service: who asks for an answer must not notice a snapshot.

Two hundred requests a second from another process, in an open loop: each is sent at its instant whatever became of the
others, and its latency counts from that instant. So a pause of 100 ms is felt by 20 requests, as by 20 users. A ratio
is the median over pairs of runs that followed each other, for a machine is not equally fast all day. Where other work
wants the processors, p99 is the scheduler's: `chrt -r 1 make bench BENCH='--only service'` (as root).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .figures import Figure
from .runs import PYTHON, ROOT, recorded

OBJECTS = 1_000_000
REQUESTS_PER_S = 200
SECONDS = 20.0  # the first snapshots come close together: a longer run would dilute them
ROUNDS = 4  # of each, in turn, every second in reverse order: p99 of one bare run and the next differ by a quarter
P99_BUDGET = 1.10
READY_S = 60.0  # to build the objects, on a slow machine
MOMENTS = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}

# What was built is collected before it serves: a full collection takes 200 ms, and whether one is still due then is
# chance, in a bare service as in one that is recorded.
SERVER = """
import asyncio, gc, json, os, sys
class Session:
    def __init__(self, number): self.number, self.name = number, "user-%d" % number
sessions = {n: Session(n) for n in range(int(sys.argv[1]))}
gc.collect()
async def answer(reader, writer):
    line = await reader.readline()
    while (await reader.readline()).strip():
        pass
    path = line.split()[1].decode()
    if path == "/stop":
        stopped.set()
        number = 0
    else:
        number = int(path[1:])
    session = sessions[number % len(sessions)]
    body = json.dumps([{"name": session.name, "number": session.number + i} for i in range(20)]).encode()
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % len(body) + body)
    await writer.drain()
    writer.close()
async def main():
    global stopped
    stopped = asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1000)
    with open(sys.argv[2] + ".part", "w") as file:
        file.write(str(server.sockets[0].getsockname()[1]))
    os.rename(sys.argv[2] + ".part", sys.argv[2])
    await stopped.wait()
asyncio.run(main())
"""

CLIENT = """
import asyncio, gc, json, sys, time
port, count, rate = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
latencies = []
async def ask(path, scheduled_s=None):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /%s HTTP/1.1\\r\\nHost: here\\r\\n\\r\\n" % path)
    answer = await reader.read()
    writer.close()
    if scheduled_s is not None:
        assert answer.startswith(b"HTTP/1.1 200"), answer
        latencies.append(time.perf_counter() - scheduled_s)
async def main():
    began_s = time.perf_counter() + 0.2
    asked = []
    for n in range(count):
        scheduled_s = began_s + n / rate
        left_s = scheduled_s - time.perf_counter()
        if left_s > 0:
            await asyncio.sleep(left_s)
        asked.append(asyncio.create_task(ask(b"%d" % (n * 7919), scheduled_s)))
    await asyncio.gather(*asked)
    await ask(b"stop")
gc.disable()  # its own collections are no latency of the service
asyncio.run(main())
print(json.dumps(latencies))
"""


def measure(folder: Path) -> Iterator[Figure]:
    """The same requests to the same service, bare and recorded in turn."""
    server, client = folder / "server.py", folder / "client.py"
    server.write_text(SERVER)
    client.write_text(CLIENT)
    bare: list[list[float]] = []
    watched: list[list[float]] = []
    for number in range(ROUNDS):
        for latencies in (bare, watched) if number % 2 == 0 else (watched, bare):
            latencies.append(_round(folder, server, client, is_recorded=latencies is watched))
            state = "recorded" if latencies is watched else "bare"
            print(f"{state}: {_in_words(latencies[-1])}", file=sys.stderr)
    name = f"service, {OBJECTS // 1_000_000}M objects, {REQUESTS_PER_S} requests/s"
    for moment, share in MOMENTS.items():
        before, after = ([_quantile(latencies, share) for latencies in rounds] for rounds in (bare, watched))
        yield Figure(f"{name}: {moment} bare", statistics.median(before) * 1e3, "ms")
        yield Figure(f"{name}: {moment} under record", statistics.median(after) * 1e3, "ms")
        ratio = statistics.median(of_watched / of_bare for of_bare, of_watched in zip(before, after))
        budget = P99_BUDGET if moment == "p99" else None
        yield Figure(f"{name}: {moment} recorded to bare", ratio, "× bare", budget)
    worst = max(statistics.median(rounds[i]) for rounds in (bare, watched) for i in range(ROUNDS))
    if worst > 1.0 / REQUESTS_PER_S:
        print(f"this machine is too busy: half of the answers take more than {worst * 1e3:.1f} ms", file=sys.stderr)


def _round(folder: Path, server: Path, client: Path, is_recorded: bool) -> list[float]:
    """Seconds from the instant at which each request was due to its answer."""
    port = folder / "port"
    port.unlink(missing_ok=True)
    command = [PYTHON, str(server), str(OBJECTS), str(port)]
    if is_recorded:
        command = recorded(command, folder / "service.parquet")
    with subprocess.Popen(command, cwd=ROOT) as service:
        ends = time.monotonic() + READY_S
        while not port.exists() and service.poll() is None and time.monotonic() < ends:
            time.sleep(0.05)
        if not port.exists():
            service.kill()
            raise SystemExit("the service did not begin")
        count = str(round(SECONDS * REQUESTS_PER_S))
        asked = [PYTHON, str(client), port.read_text(), count, str(REQUESTS_PER_S)]
        latencies: list[float] = json.loads(subprocess.run(asked, stdout=subprocess.PIPE, check=True).stdout)
    if service.returncode:
        raise SystemExit(f"the service ended with status {service.returncode}")
    return latencies


def _quantile(values: Sequence[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def _in_words(latencies: Sequence[float]) -> str:
    return ", ".join(f"{moment} {_quantile(latencies, share) * 1e3:.1f} ms" for moment, share in MOMENTS.items())
