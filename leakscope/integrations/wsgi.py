"""Counts the requests of a WSGI application (Flask, Django, Pyramid, ...) as steps of the recording.

``app.wsgi_app = CountRequests(app.wsgi_app)`` in Flask, or ``application = CountRequests(application)`` round any
application. Then a report tells growth per 1,000 requests. Outside ``leakscope record`` it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ._counting import REQUESTS, count

__all__ = ["CountRequests"]
_App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class CountRequests:
    """A request counts as it is handed to the application.

    The answer goes to the server as the application made it, not wrapped: servers know a file, or a list of one part,
    when they see it, and send it faster.
    """

    def __init__(self, app: _App) -> None:
        self.app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        count(REQUESTS)
        return self.app(environ, start_response)
