"""Workers of a Ray cluster record themselves: py_executable is what the raylet starts in place of Python."""

import ray

ray.init(
    runtime_env={"py_executable": "/opt/leakscope/bin/leakscope record -q -o /recordings/{job}.{pid}.parquet -- python"}
)


@ray.remote
def work(count: int) -> int:
    kept = [bytearray(1_000_000) for _ in range(count)]
    return len(kept)


print(ray.get([work.remote(10), work.remote(20)]))
