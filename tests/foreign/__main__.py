"""``python -m tests.foreign`` (``make foreign-tests``): suites nobody here wrote, bare and recorded in stress mode.

Every file of every suite runs twice. What differs runs again, three times each way, to tell what is timing from what is
ours. Results go to a file, a line for each test file; stopped, it goes on where it was, until the package changes. A
whole run renews ``results.json``, from which ``make docs`` makes the page of docs/.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.foreign import runs, table
from tests.foreign.examine import MOST_RUNS, examine, line
from tests.foreign.suites import SUITES, Suite, version


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.foreign", description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)} (default: all)")
    parser.add_argument(
        "--python", action="append", type=Path, help="interpreter; repeatable (default: pyenv's, 3.8 on)"
    )
    parser.add_argument("--only", nargs="+", default=[], help="only these files, with or without their folder")
    parser.add_argument("--jobs", type=int, default=1, help="files at once (default 1)")
    parser.add_argument("--again", type=int, default=3, help="how often what differs runs again, each way (default 3)")
    parser.add_argument(
        "--runs", type=int, default=MOST_RUNS, help=f"recorded runs of a short file, at most (default {MOST_RUNS})"
    )
    parser.add_argument("--limit", type=float, default=900.0, help="seconds a bare run may take (default 900)")
    parser.add_argument("--source", action="append", default=[], metavar="SUITE=FOLDER", help="where its checkout is")
    parser.add_argument("--folder", type=Path, default=runs.ROOT / "foreign-output", help="where environments are made")
    parser.add_argument("--results", type=Path, help="lines of JSON (default: results.jsonl in the folder)")
    parser.add_argument("--write", action="store_true", help="renew the page of docs/ after a part, too")
    options = parser.parse_args()
    if unknown := set(options.suites) - SUITES.keys():
        parser.error(f"no suite is called {' or '.join(sorted(unknown))}")
    options.results = options.results or options.folder / "results.jsonl"
    options.results.parent.mkdir(parents=True, exist_ok=True)
    options.source = {name: Path(folder) for name, _, folder in (one.partition("=") for one in options.source)}

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            run_all(options, pool)
        except KeyboardInterrupt:
            for number in (signal.SIGINT, signal.SIGTERM):  # not stopped twice
                signal.signal(number, signal.SIG_IGN)
            pool.shutdown(wait=False, cancel_futures=True)
            runs.stop()
            raise SystemExit(130) from None
    is_part = bool(options.suites or options.python or options.only)
    if options.write or not is_part:
        table.write(table.rows(options.results), is_part=is_part)


def run_all(options: argparse.Namespace, pool: ThreadPoolExecutor) -> None:
    at = commit()
    done = {(row["commit"], row["python"], row["suite"], row["file"]) for row in table.rows(options.results)}
    for suite, python, files in chosen(options):
        left = [file for file in files if (at, version(python), suite.name, file) not in done]
        how = {"limit_s": options.limit, "again": options.again, "most_runs": options.runs}
        work = [pool.submit(examine, suite, python, file, **how) for file in left]
        for row in (one.result() for one in work):
            with options.results.open("a", encoding="utf-8") as results:
                results.write(json.dumps({"commit": at, **row}) + "\n")
            print(line(row), flush=True)


def chosen(options: argparse.Namespace) -> Iterator[tuple[Suite, Path, list[str]]]:
    """Each suite on each interpreter, once it is installed, with its files."""
    for name in options.suites or SUITES:
        for python in options.python or pythons():
            try:
                inside = SUITES[name].prepare(python, options.folder, options.source)
                files = SUITES[name].files(inside, every=bool(options.only))  # what is named is meant
            except (OSError, subprocess.SubprocessError) as why:
                said = (getattr(why, "stderr", "") or str(why)).strip().splitlines()
                print(f"skip {name} on {version(python)}: {said[-1] if said else why}", flush=True)
                continue
            yield SUITES[name], inside, [file for file in files if wanted(file, options.only)]


def wanted(file: str, only: list[str]) -> bool:
    """``test_asyncio`` is a file, and all files of a package."""
    module = f".{file.removesuffix('.py').replace('/', '.')}."
    return not only or any(f".{part.removesuffix('.py').replace('/', '.')}." in module for part in only)


def pythons() -> list[Path]:
    """The agent's interpreters among pyenv's, and the one that runs this where there is no pyenv."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [path for path in versions.glob("3.*/bin/python") if int(path.parts[-3].split(".")[1]) >= 8]
    return sorted(found, key=lambda path: int(path.parts[-3].split(".")[1])) or [Path(sys.executable)]


def commit() -> str:
    """The last that changed the package: results of before are of another program. With a +: it is not committed."""
    git = ["git", "-C", str(runs.ROOT)]
    name = subprocess.run(
        [*git, "log", "-1", "--format=%h", "--", "leakscope"], capture_output=True, text=True, check=True
    )
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", "leakscope"], capture_output=True, text=True, check=True
    )
    return name.stdout.strip() + "+" * bool(changed.stdout)


if __name__ == "__main__":
    main()
