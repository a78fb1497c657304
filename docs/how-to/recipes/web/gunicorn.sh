#!/bin/sh
# One recording: the master and every worker, also those that --max-requests replaces.
exec /opt/leakscope/bin/leakscope record -q -o /recordings/web.parquet -- \
    gunicorn --bind 127.0.0.1:8000 --workers 2 --max-requests 5000 --max-requests-jitter 500 app:application
