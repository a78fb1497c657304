"""Counts the requests of an ASGI application (FastAPI, Starlette, Quart, Django, ...) as steps of the recording.

``app.add_middleware(CountRequests)``, or ``app = CountRequests(app)`` round any application. Then a report tells growth
per 1,000 requests. Outside ``leakscope record`` it does nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ._counting import REQUESTS, count

__all__ = ["CountRequests"]
_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]


class CountRequests:
    """A request counts when the application is done with it, failed or not; of a websocket each message that came in.

    What is received and sent passes as it is, piece by piece.
    """

    def __init__(self, app: _App) -> None:
        self.app = app

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        kind = scope["type"]
        if kind == "websocket":
            return await self.app(scope, _counting(receive), send)
        try:
            await self.app(scope, receive, send)
        finally:
            if kind == "http":
                count(REQUESTS)


def _counting(receive: _Receive) -> _Receive:
    """A connection may last for days: it is its messages that are the work."""

    async def receive_and_count() -> _Message:
        message = await receive()
        if message["type"] == "websocket.receive":
            count(REQUESTS)
        return message

    return receive_and_count
