"""Comet: an experiment of its own with curves, the verdict and the page.

`comet:PROJECT`, else COMET_PROJECT_NAME. Without COMET_API_KEY, or with COMET_OFFLINE_DIRECTORY, it is written to a
file that `comet upload` sends.
"""

from __future__ import annotations

import os
from typing import Any

from ._tracker import About, Outcome, Point

PACKAGE = "comet_ml"
_PROJECT = "leakscope"


class _Run:
    def __init__(self, experiment: Any, folder: str | None) -> None:
        self._experiment, self._folder = experiment, folder

    def log(self, point: Point) -> None:
        self._experiment.log_metrics(dict(point.figures), step=round(point.time_s))

    def alert(self, title: str, text: str) -> None:
        self._experiment.log_other("leakscope/alert", text)
        if self._folder is None:  # what is offline has nobody to send it
            self._experiment.send_notification(title, "warning", {"text": text})

    def finish(self, outcome: Outcome) -> str:
        if outcome.alarm is not None:
            self.alert("leakscope", outcome.alarm)
        self._experiment.log_others(dict(outcome.summary))
        self._experiment.log_asset(str(outcome.page), file_name=outcome.page.name)
        where = self._experiment.url if self._folder is None else f"{self._folder} (comet upload sends it)"
        self._experiment.end()
        return str(where)


def begin(place: str | None, about: About) -> _Run:
    """A new experiment. **Errors** those of comet_ml."""
    import comet_ml

    folder = os.environ.get("COMET_OFFLINE_DIRECTORY")
    if folder is None and not os.environ.get("COMET_API_KEY"):
        folder = os.getcwd()
    config = comet_ml.ExperimentConfig(
        name=f"{about.name} memory",
        offline_directory=folder,
        log_code=False,
        log_graph=False,
        log_git_metadata=False,
        log_git_patch=False,
        log_env_details=False,
        auto_param_logging=False,
        auto_metric_logging=False,
        auto_output_logging=False,
        parse_args=False,
        display_summary_level=0,
    )
    project = place or os.environ.get("COMET_PROJECT_NAME") or _PROJECT
    experiment = comet_ml.start(online=folder is None, project_name=project, experiment_config=config)
    experiment.log_parameters({f"leakscope/{name}": str(value) for name, value in about._asdict().items()})
    return _Run(experiment, folder)
