"""Weights & Biases: a run of its own in the job's project and group, since two processes must not write one run.

`wandb:PROJECT`, else WANDB_PROJECT; WANDB_MODE=offline, WANDB_ENTITY, WANDB_RUN_GROUP and the like hold as always. Of a
job that names its run (WANDB_RUN_ID) that one is in the config, and in the run's notes.
"""

from __future__ import annotations

import os
import uuid
from typing import Any

from ._tracker import PREFIX, About, Outcome, Point

PACKAGE = "wandb"
_PROJECT = "leakscope"


class _Run:
    def __init__(self, run: Any, name: str) -> None:
        self._run, self._name = run, name

    def log(self, point: Point) -> None:
        self._run.log(dict(point.figures))

    def alert(self, title: str, text: str) -> None:
        self._run.alert(title, text, level="WARN")

    def finish(self, outcome: Outcome) -> str:
        from wandb import Artifact, Html

        if outcome.alarm is not None:
            self.alert(f"leakscope: {self._name}", outcome.alarm)
        self._run.summary.update(dict(outcome.summary))
        self._run.log({f"{PREFIX}report": Html(outcome.page.read_text("utf-8"), inject=False)})
        artifact = Artifact(f"leakscope-{self._run.id}", type="leakscope-report")
        artifact.add_file(str(outcome.page))
        self._run.log_artifact(artifact)
        folder = os.path.dirname(self._run.dir)
        where = f"{folder} (wandb sync sends it)" if self._run.offline else self._run.url
        self._run.finish()
        return str(where)


def begin(place: str | None, about: About) -> _Run:
    """A new run. **Errors** those of wandb."""
    import wandb

    of_job = os.environ.get("WANDB_RUN_ID")
    settings = wandb.Settings(
        console="off", silent=True, save_code=False, disable_git=True, x_disable_stats=True, x_disable_meta=True
    )
    run = wandb.init(
        project=place or os.environ.get("WANDB_PROJECT") or _PROJECT,
        id=uuid.uuid4().hex[:12],
        resume="never",
        name=about.name,
        job_type="memory",
        notes=f"memory of the run {of_job}" if of_job else None,
        config={"leakscope": {**about._asdict(), "labels": dict(about.labels), "run_of_job": of_job}},
        settings=settings,
    )
    run.define_metric(f"{PREFIX}time_s")
    run.define_metric(f"{PREFIX}*", step_metric=f"{PREFIX}time_s")
    return _Run(run, about.name)
