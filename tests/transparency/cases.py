"""Shell scripts that a user may have, with ``r`` in front of the command that is recorded: each says what it saw.

Run once with an ``r`` that only starts the command and once with one that records it, a script must print the same,
write the same to stderr and end the same. ``$PY`` is the interpreter; the folder of a case is its own.
"""

from __future__ import annotations

PYTHON_CASES = {
    "how-python-is-started": r"""
echo 'import sys; print(sys.argv, __name__, __file__ if "__file__" in globals() else None)' > seen.py
r $PY seen.py a 'b c'
r $PY -m seen a
r $PY -c "$(cat seen.py)" a
r $PY - a < seen.py
r $PY < seen.py
cat seen.py | r $PY /dev/stdin
mkdir app; cp seen.py app/__main__.py; r $PY app x
(cd app; $PY -m zipfile -c ../app.zip __main__.py); r $PY app.zip y
""",
    "options-of-the-interpreter": r"""
p='import sys; print(sys.flags, sys.warnoptions, sys._xoptions)'
for o in -I -E -S -s -B -O -OO -u '-W error' '-X dev' '-X utf8' '-I -S -E'; do r $PY $o -c "$p"; done
""",
    "paths-and-variables-of-python": r"""
p='import os, sys; print([p for p in sys.path if "journal" not in p], sys.prefix, sys.flags.safe_path)'
PYTHONPATH= r $PY -c "$p"
PYTHONPATH=rel:/abs r $PY -c "$p"
PYTHONSAFEPATH=1 r $PY -c "$p"
PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 r $PY -c 'import sys; print(sys.flags, hash("x"))'
LC_ALL=C r $PY -c 'import sys; print(sys.getfilesystemencoding(), sys.stdout.encoding, sys.stdout.errors)'
echo 'print("startup")' > startup.py
echo 'print(6 * 7)' | PYTHONSTARTUP=$PWD/startup.py r $PY -i
""",
    "own-sitecustomize": r"""
mkdir raises exits says
echo '1 / 0' > raises/sitecustomize.py
echo 'raise SystemExit(5)' > exits/sitecustomize.py
echo 'import sys; print("mine", __name__, __file__)' > says/sitecustomize.py
# Inside the recorded command: a recorder that is started with it runs it too, as any Python would.
for d in raises exits says; do
    r sh -c "PYTHONPATH=\$PYTHONPATH:$PWD/$d exec $PY -c 'print(\"on\")'" 2> said; echo $?
    grep -v '^ ' said  # without the frames: who imports it stands in them
done
r sh -c "PYTHONPATH=\$PYTHONPATH:$PWD/says exec $PY -c 'import sitecustomize as s; print(s.__file__, s.__spec__.name)'"
""",
    "children-of-python": r"""
cat > children.py <<'END'
import multiprocessing, os, subprocess, sys
def work(x):
    return x * x
def main():
    clean = {"PATH": os.environ["PATH"]}
    print(subprocess.run([sys.executable, "-c", "print('clean')"], env=clean).returncode)
    print(subprocess.run([sys.executable, "-c", "print('empty')"], env={}).returncode)
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(work, range(4)))
    child = multiprocessing.get_context("fork").Process(target=os._exit, args=(3,))
    child.start(); child.join(); print(child.exitcode)
if __name__ == "__main__":
    main()
END
r $PY children.py
""",
    "the-end-of-python": r"""
r $PY -c 'import atexit; atexit.register(print, "at exit"); print("before"); raise SystemExit("said")'; echo $?
r $PY -c 'import os; print("lost", end=""); os._exit(4)'; echo $?
r $PY -c 'import threading, time; threading.Thread(target=lambda: (time.sleep(0.2), print("late"))).start()'; echo $?
r $PY -c 'raise KeyboardInterrupt'; echo $?
r $PY -c 'import sys; sys.exit(2**40 + 3)'; echo $?
r $PY -c 'print("x" * 100000)' | head -c 10; echo "${PIPESTATUS[@]}"
""",
    "tools-of-python": r"""
echo 'def test_one(): assert 1 + 1 == 2' > test_one.py
r $PY -m pytest -q -p no:cacheprovider test_one.py | sed 's/ in .*//'; echo "${PIPESTATUS[0]}"
if $PY -c 'import coverage' 2>/dev/null; then
    echo 'print(1)' > covered.py; r $PY -m coverage run covered.py; r $PY -m coverage report
fi
echo '{"a": 1}' | r $PY -m json.tool
""",
}

SHELL_CASES = {
    "every-status": 'for n in 0 1 2 7 124 125 126 127 128 137 255; do r sh -c "exit $n"; echo $?; done',
    "every-signal": """
ulimit -c 0
for s in HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM XCPU XFSZ VTALRM PROF IO SYS 40; do
    r sh -c "kill -$s \\$\\$"; echo $s $?
done 2>&1 | sed 's/^.*line [0-9]*: *[0-9]* //; s/  *r sh.*//; s/  *"$@".*//'
""",
    "pipes": r"""
set -o pipefail
r sh -c 'echo out; exit 3' | cat; echo "${PIPESTATUS[@]}"
yes | r head -n 2; echo "${PIPESTATUS[@]}"
printf 'a\nb' | r cat | cat -A; echo
echo in | r sh -c 'read x; echo "got $x"; cat' ; echo $?
head -c 10000000 /dev/zero | tr '\0' x | r cat | sha256sum
r sh -c 'head -c 10000000 /dev/zero' | sha256sum
{ r echo first; echo second; } | cat
""",
    "what-is-inherited": r"""
exec 5> five; r sh -c 'echo to five >&5'; cat five
(umask 027; r sh -c umask)
(ulimit -n 64; r sh -c 'ulimit -n'); (ulimit -c 0; r sh -c 'ulimit -c')
nice -n 3 r nice
r cat /proc/self/oom_score_adj
(cd /; r pwd)
r $PY -c 'import os; up = os.getppid(); print(os.getpgrp() == os.getpgid(up), os.getsid(0) == os.getsid(up))'
(trap '' HUP; r sh -c 'kill -HUP $$; echo goes on')
env -i PATH="$PATH" r env | grep -v '^PYTHONPATH=\|^_=\|^PWD=\|^SHLVL='
""",
    "odd-arguments": r"""
r printf '<%s>\n' '' ' ' $'new\nline' $'\xff\xfe' '--' '-o' '*' '$HOME' '"' "'" | od -c
r -- echo dashes 2>/dev/null; echo $?
""",
    "stopped-from-outside": r"""
timeout --foreground -s TERM 1 r sh -c 'trap "echo asked; exit 6" TERM; sleep 3 & wait'; echo $?
r timeout 0.2 sleep 20; echo $?
""",
}
