#!/bin/sh
# One recording a node, with all its ranks in it: the ranks are its processes.
/opt/leakscope/bin/leakscope record -q -o 'node{node_rank}.parquet' -- \
    torchrun --nproc-per-node 2 train.py

# One recording a rank.
torchrun --nproc-per-node 2 --no-python \
    /opt/leakscope/bin/leakscope record -q -o 'rank{rank}of{world_size}.parquet' -- python train.py
