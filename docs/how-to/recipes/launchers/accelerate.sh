#!/bin/sh
# One recording a rank. Without --no_python the launcher would run leakscope as a Python script.
accelerate launch --multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no --no_python \
    /opt/leakscope/bin/leakscope record -q -o 'rank{rank}of{world_size}.parquet' -- python train.py
