"""Figures of a run for Prometheus and OpenTelemetry, served or pushed while it is recorded. Runs beside the job.

A process of its own, which reads what the recorder writes and asks nothing of it: whoever asks for figures meets this
process, and a slow or hostile one stands in nobody's way. ``families`` says what there is; ``readings`` gives the
figures of a moment; ``exposition`` writes them as text, ``serving`` answers requests, ``pushing`` sends them by OTLP.
All but the last need the standard library alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..endpoints import listen, otlp_url, parse_address
from ..errors import BadInput

if TYPE_CHECKING:
    from .following import Following

__all__ = ["push", "serve", "text_of"]


def text_of(run: Path, *, openmetrics: bool = False) -> str:
    """The metrics of a recording as it is now. **Errors** UnreadableRecording."""
    from .exposition import written
    from .following import Following

    following = Following(run)
    try:
        following.look_at_all()
        following.work_out_holders()
        return written(following.readings(), openmetrics=openmetrics)
    finally:
        following.close()


def serve(run: Path, address: str, *, say: Callable[[str], None]) -> int:
    """Serve them until the run ends, or ^C; returns 0. **Errors** UnreadableRecording, BadInput."""
    from .following import Following
    from .serving import Server

    following = Following(run)
    _check_is_live(following, run)
    listener = listen(parse_address(address))
    host, port = listener.getsockname()[:2]
    say(f"metrics are at http://{f'[{host}]' if ':' in host else host}:{port}/metrics; ^C ends it")
    with suppress(KeyboardInterrupt):
        Server(following, listener).run()
    return 0


def push(run: Path, url: str) -> int:
    """Push them until the run ends, or ^C; returns 2 if none was accepted. **Errors** UnreadableRecording, BadInput."""
    from . import pushing
    from .following import Following

    following = Following(run)
    _check_is_live(following, run)
    try:
        return pushing.push(following, otlp_url(url))
    except KeyboardInterrupt:
        return 0


def _check_is_live(following: Following, run: Path) -> None:
    if not following.is_live:
        following.close()
        raise BadInput(f"{run} is not being recorded: `leakscope metrics {run}` prints its last figures")
