"""MLflow: metrics, tags and the page, in the job's own run where it names one (MLFLOW_RUN_ID), else in a new one.

`mlflow:EXPERIMENT`, else MLFLOW_EXPERIMENT_NAME or MLflow's default; the server is that of MLFLOW_TRACKING_URI.
"""

from __future__ import annotations

import os
from typing import Any

from ._tracker import About, Outcome, Point

PACKAGE = "mlflow"
_DEFAULT_EXPERIMENT = "Default"
_MOST_TAG = 5000  # characters of a value
_FOLDER = "leakscope"


class _Run:
    def __init__(self, client: Any, run_id: str, is_ours: bool) -> None:
        self._client, self._id, self._is_ours = client, run_id, is_ours

    def log(self, point: Point) -> None:
        from mlflow.entities import Metric

        at_ms, step = round(point.unix_s * 1000), round(point.time_s)
        self._client.log_batch(self._id, [Metric(name, value, at_ms, step) for name, value in point.figures.items()])

    def alert(self, title: str, text: str) -> None:
        """It sends none: a tag that stays."""
        self._client.set_tag(self._id, "leakscope.alert", text[:_MOST_TAG])

    def finish(self, outcome: Outcome) -> str:
        if outcome.alarm is not None:
            self.alert("", outcome.alarm)
        for name, value in outcome.summary.items():
            self._client.set_tag(self._id, name.replace("/", "."), str(value)[:_MOST_TAG])
        self._client.log_artifact(self._id, str(outcome.page), _FOLDER)
        self._client.log_text(self._id, outcome.text, f"{_FOLDER}/report.md")
        if self._is_ours:
            self._client.set_terminated(self._id)
        return f"run {self._id}"


def begin(place: str | None, about: About) -> _Run:
    """The job's run, or a new one. **Errors** those of mlflow."""
    from mlflow import MlflowClient

    client = MlflowClient()
    of_job = os.environ.get("MLFLOW_RUN_ID")
    tags = {"leakscope.command": about.command[:_MOST_TAG], "leakscope.recording": about.recording}
    if of_job:
        for name, value in tags.items():
            client.set_tag(of_job, name, value)
        return _Run(client, of_job, is_ours=False)
    name = place or os.environ.get("MLFLOW_EXPERIMENT_NAME") or _DEFAULT_EXPERIMENT
    known = client.get_experiment_by_name(name)
    experiment = known.experiment_id if known is not None else client.create_experiment(name)
    run = client.create_run(experiment, run_name=f"{about.name} memory", tags={**tags, **about.labels})
    return _Run(client, run.info.run_id, is_ours=True)
