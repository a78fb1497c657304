#!/bin/sh
# One recording a rank. --no_local_rank: the rank is in the environment, and record passes no option on.
deepspeed --num_gpus 2 --no_python --no_local_rank \
    /opt/leakscope/bin/leakscope record -q -o 'rank{rank}of{world_size}.parquet' -- python train.py
