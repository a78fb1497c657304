#!/bin/sh
# An epilog (Epilog= in slurm.conf), which runs as root on every node when a job has ended there: finishes what recorders
# that were killed have left on this node, and has the verdicts of its ranks written into their footers.
folder=/recordings/${SLURM_JOB_ID:?}
[ -d "$folder" ] || exit 0
for recording in "$folder/$SLURMD_NODENAME".*.parquet; do
    [ -f "$recording" ] || continue
    owner=$(stat -c %u "$recording")
    # As its owner; a failing epilog would drain the node.
    setpriv --reuid "$owner" --clear-groups timeout 60 \
        /opt/leakscope/bin/leakscope finalize -q --judge "$recording" || true
done
exit 0
