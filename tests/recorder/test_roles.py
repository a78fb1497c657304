"""Roles of processes: by command lines as they are found, and of processes that really run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from leakscope.recorder.roles import role_of

from .runs import PYTHON, record, rows

TRAIN = ["python", "train.py"]
COMPILE = ["python", "/site-packages/torch/_inductor/compile_worker/__main__.py", "--workers=2"]
FORKSERVER = ["python", "-c", "from multiprocessing.forkserver import main; main(5)"]
POOLS = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
def work(i): return i
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            pool.map(work, range(4))
            import time; time.sleep(0.5)
"""


@pytest.mark.parametrize(
    ("arguments", "role"),
    [
        ("python train.py", "trainer"),
        ("/usr/bin/python3.11 -m train", "trainer"),
        ("python -X dev -W ignore -u train.py", "trainer"),
        ("python train.py --report_to wandb", "trainer"),
        ("python train.py tensorboard torchrun", "trainer"),
        ("python wandb_sweep.py", "trainer"),
        ("python train.py -m torch.distributed.run", "trainer"),
        ("/env/bin/python /env/bin/torchrun train.py", "launcher"),
        ("python -um torch.distributed.run train.py", "launcher"),
        ("python -u -m deepspeed.launcher.launch --world_info=e30= train.py", "launcher"),
        ("python /env/bin/accelerate launch train.py", "launcher"),
        ("python /opt/conda/bin/conda run -n env python train.py", "launcher"),
        ("uv run train.py", "launcher"),
        ("timeout 1h python train.py", "launcher"),
        ("python /env/bin/tensorboard --logdir runs", "logger"),
        ("python -m wandb.sdk.service", "logger"),
        ("/wandb/bin/wandb-core --port-filename=x", "logger"),
        ("wandb-service(2-4242-s-39187)", "logger"),
        ("/torch/bin/torch_shm_manager", "shm-manager"),
        ("-bash", "shell"),
        ("nvidia-smi", "other"),
    ],
)
def test_roles_by_the_command_line_alone(arguments: str, role: str) -> None:
    assert role_of("comm", arguments.split(), None, None) == role


@pytest.mark.parametrize(
    ("arguments", "parent_role", "parent_arguments", "role"),
    [
        (TRAIN, "trainer", TRAIN, "python-fork"),
        (["python", "tool.py"], "trainer", TRAIN, "python"),
        (["python", "-u", "train.py"], "launcher", ["python", "torchrun", "train.py"], "trainer"),
        (["python", "train.py"], "shell", ["bash", "run.sh"], "trainer"),
        (["python", "-c", "from multiprocessing.resource_tracker import main;main(5)"], "trainer", TRAIN,
         "resource-tracker"),
        (["python", "-c", "from multiprocess.spawn import spawn_main; spawn_main(tracker_fd=5)"], "trainer", TRAIN,
         "python-spawn"),
        (["python", "-m", "joblib.externals.loky.backend.popen_loky_posix", "--pipe", "9"], "trainer", TRAIN,
         "python-spawn"),
        (COMPILE, "trainer", TRAIN, "compile-sidecar"),
        (COMPILE, "compile-sidecar", COMPILE, "compile-worker"),
        (FORKSERVER, "trainer", TRAIN, "forkserver"),
        (FORKSERVER, "forkserver", FORKSERVER, "python-fork"),
        (["/wandb/bin/helper"], "logger", ["wandb-core"], "logger"),
    ],
)  # fmt: skip
def test_roles_by_who_started_it(
    arguments: list[str], parent_role: str, parent_arguments: list[str], role: str
) -> None:
    assert role_of("python", arguments, parent_role, parent_arguments) == role


def test_a_loader_worker_is_told_by_its_threads_name_and_a_kernel_thread_is_nobody() -> None:
    assert role_of("pt_data_worker", TRAIN, "trainer", TRAIN) == "dataloader-worker"
    assert role_of("kworker", [], None, None) == "other"


@pytest.mark.live
def test_pools_of_every_start_method(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(POOLS)
    result = record(tmp_path, "-q", "-i", "50ms", "--agent", "off", PYTHON, "train.py")
    assert result.returncode == 0, result.stderr
    last = {row["pid"]: row["role"] for row in rows(tmp_path / "run.parquet.journal", "processes")}
    found = Counter(last.values())
    assert found == {"trainer": 1, "python-fork": 4, "python-spawn": 2, "resource-tracker": 1, "forkserver": 1}


RANKS = """
import os, subprocess, sys, time
if "LOCAL_RANK" not in os.environ:
    subprocess.run([sys.executable, *sys.argv], env={**os.environ, "LOCAL_RANK": "1"}, check=True)
else:
    time.sleep(2)  # a recorder without a processor looks late
"""


@pytest.mark.live
def test_a_rank_that_the_program_starts_by_its_own_command_line_trains(tmp_path: Path) -> None:
    """As Lightning starts the other ranks of a machine."""
    (tmp_path / "train.py").write_text(RANKS)
    result = record(tmp_path, "-q", "-i", "50ms", "--agent", "off", PYTHON, "train.py")
    assert result.returncode == 0, result.stderr
    last = {row["pid"]: row for row in rows(tmp_path / "run.parquet.journal", "processes")}
    assert [(row["role"], row["local_rank"]) for row in last.values()] == [("trainer", None), ("trainer", 1)]


TITLES = """
import os, subprocess, sys, time
WAITS = ["-c", "import time; time.sleep(1.5)"]
started = subprocess.Popen(["app scheduler -- of 2", *WAITS], executable=sys.executable)
forked = os.fork()
if not forked:
    time.sleep(1)  # the recorder looks at it meanwhile
    os.execv(sys.executable, ["app worker -- job 7", *WAITS])
os.waitpid(forked, 0)
started.wait()
"""


@pytest.mark.live
def test_a_python_that_gives_itself_a_title_stays_what_it_was(tmp_path: Path) -> None:
    """As workers of servers do: their command line is gone then, and their file says that it is Python."""
    (tmp_path / "serve.py").write_text(TITLES)
    result = record(tmp_path, "-q", "-i", "50ms", "--agent", "off", PYTHON, "serve.py")
    assert result.returncode == 0, result.stderr
    last = {row["pid"]: row for row in rows(tmp_path / "run.parquet.journal", "processes")}
    told = {row["cmdline"].split(" --")[0].strip("'"): row["role"] for row in last.values()}
    assert (told["app scheduler"], told["app worker"]) == ("python", "python-fork")
    assert role_of("gunicorn: maste", ["gunicorn: master [app]"], "shell", ["bash"], PYTHON) == "trainer"
    assert role_of("postgres", ["postgres: writer"], "trainer", TRAIN, "/usr/bin/postgres") == "other"
