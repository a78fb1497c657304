#!/bin/sh
exec /opt/leakscope/bin/leakscope record -q -o /recordings/web.parquet -- \
    uvicorn --host 127.0.0.1 --port 8000 --workers 2 app:application
