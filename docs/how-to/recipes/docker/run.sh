#!/bin/sh
# The three ways to record a container. IMAGE is one with leakscope in it (Dockerfile).
set -eu
image=${1:?usage: run.sh IMAGE}

# 1. leakscope starts the program: objects have names.
docker run --rm -m 8g --shm-size 2g -v "$PWD/recordings:/recordings" "$image"

# 2. A container that runs already, by a second one that sees its processes: from outside, objects have no names.
#    SYS_PTRACE is what the kernel asks of who reads how much a foreign process shares (PSS).
docker run --rm --pid "container:train" --cap-add SYS_PTRACE -v "$PWD/recordings:/recordings" \
    --entrypoint /opt/leakscope/bin/leakscope "$image" attach -q -d 10min -o /recordings/train.parquet 1

# 3. All containers of the host, by one that sees the host's processes. Its own memory limit is not theirs.
docker run --rm --pid host --cap-add SYS_PTRACE -v "$PWD/recordings:/recordings" \
    --entrypoint /opt/leakscope/bin/leakscope "$image" record -q --system -d 10min -o '/recordings/{host}.parquet'
