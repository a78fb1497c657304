"""The files of docs/how-to/recipes: valid by the schemas of those who read them, and run as far as one machine can."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from leakscope import open_recording
from tests.recorder.runs import PYTHON, ROOT, environment, until

RECIPES = ROOT / "docs" / "how-to" / "recipes"
KUBERNETES = "1.37"
WAIT_S = 120
TOOL = "/opt/leakscope/bin/leakscope"
TRAIN = """
import os, time
kept = [bytearray(1_000_000) for _ in range(5)]
time.sleep(2)
print("rank", os.environ.get("RANK"), flush=True)
"""


def of_kind(*suffixes: str) -> list[Any]:
    found = sorted(path for path in RECIPES.rglob("*") if path.suffix in suffixes)
    return [pytest.param(path, id=path.relative_to(RECIPES).as_posix()) for path in found]


def test_every_recipe_is_in_a_page() -> None:
    pages = "".join(page.read_text("utf-8") for page in (RECIPES.parent).glob("*.md"))
    files = [path.relative_to(RECIPES.parent).as_posix() for path in RECIPES.rglob("*") if path.is_file()]
    assert len(files) > 12
    assert not [name for name in files if f"]({name})" not in pages]


@pytest.mark.parametrize("path", of_kind(".yaml"))
def test_manifests(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    document = yaml.safe_load(path.read_text("utf-8"))
    if path.parent.name == "kubernetes":
        validate = pytest.importorskip("kubernetes_validate").validate
        validate(document, KUBERNETES, strict=True)  # unknown keys are refused
        assert document["apiVersion"]
    else:
        validate_by("compose-spec.json", document)


def test_the_workflow() -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((RECIPES / "github" / "memory.yml").read_text("utf-8"))
    workflow["on"] = workflow.pop(True)  # YAML 1.1 reads the key as a truth value
    validate_by("github-workflows.json", workflow)


def validate_by(name: str, document: Any) -> None:
    """By a schema that check-jsonschema brings along."""
    import jsonschema

    pytest.importorskip("check_jsonschema")
    folder = resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    text = (folder / name).read_text(encoding="utf-8")
    jsonschema.Draft7Validator(json.loads(text)).validate(document)


@pytest.mark.live
@pytest.mark.parametrize("path", of_kind(".sh", ".sbatch"))
def test_scripts_parse(path: Path) -> None:
    shell = path.read_text("utf-8").splitlines()[0].removeprefix("#!")
    subprocess.run([shell, "-n", str(path)], check=True)


@pytest.mark.live
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize("path", of_kind(".service"))
def test_units(path: Path, tmp_path: Path) -> None:
    place = tmp_path / path.name.replace("@", "@my")
    text = path.read_text("utf-8").replace(TOOL, PYTHON).replace("%i", "my")
    place.write_text(text)
    (tmp_path / "my.service").write_text((RECIPES / "systemd" / "my.service").read_text("utf-8").replace(TOOL, PYTHON))
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(place)],
        capture_output=True, text=True, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )  # fmt: skip
    about = [line for line in result.stderr.splitlines() if str(tmp_path) in line or "my.service" in line]
    assert not about and result.returncode == 0, result.stderr


class Place:
    """A machine on which the recipes' paths exist: /opt/leakscope, /recordings and /app lie in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.app, self.recordings, self.bin = folder / "app", folder / "recordings", folder / "bin"
        for path in (self.app, self.recordings, self.bin):
            path.mkdir()
        self.command("leakscope", "-m leakscope")
        self.command("python", "")
        self.command("torchrun", "-m torch.distributed.run")
        (self.app / "train.py").write_text(TRAIN)

    def command(self, name: str, arguments: str) -> None:
        (self.bin / name).write_text(f'#!/bin/sh\nexec {PYTHON} {arguments} "$@"\n')
        (self.bin / name).chmod(0o755)

    def recipe(self, name: str) -> Path:
        """With this machine's paths."""
        text = (RECIPES / name).read_text("utf-8")
        for path, real in ((TOOL, self.bin / "leakscope"), ("/recordings", self.recordings), ("/app", self.app)):
            text = text.replace(path, str(real))
        place = self.folder / Path(name).name
        place.write_text(text)
        return place

    def environment(self, **changes: str) -> dict[str, str]:
        path = f"{self.bin}:{Path(PYTHON).parent}:{os.environ['PATH']}"
        return environment(PATH=path, OMP_NUM_THREADS="1", **changes)

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=self.app, env=self.environment(**env), capture_output=True, text=True, timeout=WAIT_S
        )

    @contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            words, cwd=self.app, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

    def recorded(self, pattern: str = "*.parquet", folder: Path | None = None) -> list[Any]:
        return [open_recording(path) for path in sorted((folder or self.recordings).glob(pattern))]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.slow
@pytest.mark.torch
def test_torchrun(place: Place) -> None:
    result = place.run("sh", "-e", str(place.recipe("launchers/torchrun.sh")))
    assert result.returncode == 0, result.stderr
    (node,) = place.recorded("node0.parquet", place.app)
    assert (node.tables.processes["cmdline"].str.count("train.py") > 0).sum() >= 2
    ranks = place.recorded("rank*", place.app)
    assert [(one.meta["belongs"]["rank"], one.meta["belongs"]["world_size"]) for one in ranks] == [(0, 2), (1, 2)]
    assert {one.meta["belongs"]["scheduler"] for one in ranks} == {"torchrun"}
    assert all(one.ended == ("exit", 0, None) for one in ranks)


@pytest.mark.slow
@pytest.mark.torch
def test_accelerate(place: Place) -> None:
    pytest.importorskip("accelerate")
    place.command("accelerate", "-m accelerate.commands.accelerate_cli")
    result = place.run("sh", "-e", str(place.recipe("launchers/accelerate.sh")))
    assert result.returncode == 0, result.stderr
    ranks = place.recorded("rank*", place.app)
    assert [(one.meta["belongs"]["rank"], one.meta["belongs"]["world_size"]) for one in ranks] == [(0, 2), (1, 2)]


@pytest.mark.slow
def test_ray(place: Place) -> None:
    """Each worker is recorded; Ray kills them when the driver ends, so that somebody else finishes the files."""
    if importlib.util.find_spec("ray") is None:  # to import it changes the environment
        pytest.skip("Ray is not installed")
    driver = place.recipe("ray/driver.py")
    text = driver.read_text().replace("ray.init(\n", "ray.init(\n    num_cpus=2, include_dashboard=False,\n")
    driver.write_text(text.replace("-- python", f"-- {PYTHON}"))
    result = place.run(PYTHON, str(driver))
    assert result.returncode == 0, result.stderr
    assert "[10, 20]" in result.stdout
    files = sorted(place.recordings.glob("*.parquet"))
    assert files
    done = place.run(str(place.bin / "leakscope"), "finalize", "--judge", *map(str, files))
    assert done.returncode == 0, done.stderr
    for recording in place.recorded():
        assert recording.meta["belongs"]["scheduler"] == "ray"
        assert recording.path.name.startswith(recording.meta["belongs"]["job"])
        assert recording.meta["verdict"]


SERVES = """
async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"served"})
"""
SERVES_WSGI = """
def application(environ, start_response):
    start_response("200 OK", [])
    return [b"served"]
"""


@pytest.mark.slow
@pytest.mark.parametrize(("server", "program"), [("gunicorn", SERVES_WSGI), ("uvicorn", SERVES)])
def test_web_servers(place: Place, server: str, program: str) -> None:
    pytest.importorskip(server)
    (place.app / "app.py").write_text(program)
    place.command(server, f"-m {server}")
    script = place.recipe(f"web/{server}.sh")
    port = str(20000 + os.getpid() % 20000)
    script.write_text(script.read_text().replace("8000", port))
    with place.running("sh", str(script)) as process:
        assert until(lambda: _served(f"http://127.0.0.1:{port}/")) == b"served"
        time.sleep(2)  # a round of the recorder in which all are there
        assert process.poll() is None
    (recording,) = place.recorded()
    pythons = recording.tables.processes
    assert len(pythons) >= 3  # the master and two workers
    assert recording.meta["state"] == "final"


def _served(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bytes(answer.read())
    except OSError:
        return None


@pytest.mark.slow
def test_supervisord(place: Place) -> None:
    pytest.importorskip("supervisor")
    (place.app / "serve.py").write_text("import time\nprint('serving', flush=True)\ntime.sleep(600)\n")
    with place.running(PYTHON, "-m", "supervisor.supervisord", "-c", str(place.recipe("supervisor/supervisord.conf"))):
        until(lambda: any(place.recordings.glob("serve.parquet.journal/recorder-*.jnl")))
        time.sleep(2)
    (recording,) = place.recorded()
    assert recording.meta["state"] == "final"
    assert recording.ended == ("signal", None, signal.SIGTERM)


@pytest.mark.slow
def test_an_init_container_brings_the_recorder(place: Place) -> None:
    """What it copies runs by a Python that has none of our libraries; who has all of them finishes the file."""
    manifest = (RECIPES / "kubernetes" / "init-container.yaml").read_text("utf-8")
    assert "> /tool/__main__.py" in manifest
    tool = place.folder / "tool"
    shutil.copytree(ROOT / "leakscope", tool / "leakscope", ignore=shutil.ignore_patterns("__pycache__"))
    (tool / "__main__.py").write_text("from leakscope.__main__ import main; main()\n")
    bare = [sys.executable, "-I", "-S"]  # no site-packages
    words = [*bare, str(tool), "record", "-q", "-o", f"{place.recordings}/{{pod}}.parquet", "--", *bare, "train.py"]
    result = subprocess.run(
        words, cwd=place.app, env={"POD_NAME": "train-0", "PATH": os.environ["PATH"]}, timeout=WAIT_S
    )
    assert result.returncode == 0
    assert (place.recordings / "train-0.parquet.journal").is_dir()
    done = place.run(
        str(place.bin / "leakscope"),
        "upload",
        f"{place.recordings}/train-0.parquet",
        "--to",
        f"file://{place.folder}/bucket/",
    )
    assert done.returncode == 0, done.stderr
    uploaded = open_recording(place.folder / "bucket" / "train-0.parquet")
    assert uploaded.meta["belongs"]["pod"] == "train-0"
    assert uploaded.meta["figures"]["exit_code"] == 0


def in_a_pid_namespace() -> list[str] | None:
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    try:
        return words if subprocess.run([*words, "true"], capture_output=True).returncode == 0 else None
    except OSError:
        return None


@pytest.mark.slow
def test_a_side_car_records_what_shares_its_processes(place: Place) -> None:
    """As with shareProcessNamespace, or --pid container:...: another process in the same namespace of processes."""
    if (unshare := in_a_pid_namespace()) is None:
        pytest.skip("no namespace of processes can be made here")
    words = f"{place.bin}/leakscope record -q --system -d 6s -o {place.recordings}/{{pod}}.parquet"
    result = place.run(
        *unshare, "sh", "-c", f"python train.py & {words}", POD_NAME="serve", KUBERNETES_SERVICE_HOST="x"
    )
    assert result.returncode == 0, result.stderr
    (recording,) = place.recorded("serve.parquet")
    lines = recording.tables.processes["cmdline"].dropna()
    assert any("train.py" in line for line in lines)
    assert len(recording.tables.processes) < 10  # those of the pod, not of the host


@pytest.mark.slow
def test_as_the_first_process_of_a_container(place: Place) -> None:
    if (unshare := in_a_pid_namespace()) is None:
        pytest.skip("no namespace of processes can be made here")
    words = [
        f"{place.bin}/leakscope",
        "record",
        "-q",
        "-o",
        f"{place.recordings}/run.parquet",
        "--",
        "sh",
        "-c",
        "kill -9 $$",
    ]
    result = place.run(*unshare, *words)
    assert result.returncode == 128 + 9
    (recording,) = place.recorded()
    assert recording.ended == ("signal", None, 9)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv")
def test_the_epilog(place: Place) -> None:
    """A recorder was killed with its task: the epilog finishes its file and writes the verdict."""
    folder = place.recordings / "4711"
    folder.mkdir()
    environ = {"SLURM_JOB_ID": "4711", "SLURMD_NODENAME": "n1", "SLURM_PROCID": "3"}
    script = place.recipe("slurm/train.sbatch")
    script.write_text(script.read_text().replace("srun ", "exec "))
    (place.app / "train.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    with place.running("env", *(f"{k}={v}" for k, v in environ.items()), "bash", str(script)) as recorder:
        assert recorder.stdout is not None and recorder.stdout.readline() == "ready\n"
        path = folder / "n1.1.rank3.parquet"
        until(lambda: any(Path(f"{path}.journal").glob("recorder-*.jnl")))
        until(lambda: len(open_recording(path).tables.processes) > 0)
        pids = [int(pid) for pid in open_recording(path).tables.processes["pid"]]
        recorder.kill()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    result = place.run("sh", str(place.recipe("slurm/epilog.sh")), **environ)
    assert result.returncode == 0
    recording = open_recording(path)
    assert recording.meta["state"] == "final"
    assert recording.meta["verdict"]["leaking"] is None
    assert recording.meta["belongs"]["job"] == "4711"
