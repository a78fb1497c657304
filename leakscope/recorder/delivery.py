"""Delivers one alert: the user's command, then the webhooks. A process of its own, started by ``alerting.py``.

Run as a script without site and without anything of ours: what it does comes as JSON on its standard input. It always
ends by itself: the command is ended after ``COMMAND_S`` and each request after ``REQUEST_S``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

COMMAND_S = 30
REQUEST_S = 5.0
PAUSES_S = (1.0, 4.0)  # between three attempts
_DISCORD_CHARACTERS = 2000
_MOST_DESCRIPTORS = 4096
_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    os.closerange(3, _MOST_DESCRIPTORS)  # what the recorder was given: who reads there waits for the last to close it
    order = json.load(sys.stdin.buffer)
    if order["command"] and os.fork() == 0:
        run(order["command"], order["alert"])
        os._exit(0)
    failures = [failure for url in order["webhooks"] if (failure := post(url, order["alert"])) is not None]
    for failure in failures:
        print(f"leakscope: {failure}", file=sys.stderr)
    with suppress(ChildProcessError):
        os.wait()
    return 1 if failures else 0


def run(command: str, alert: dict[str, Any]) -> None:
    """The user's command in a shell, with the alert on its standard input; what it says goes to stderr.

    Waits also for what it leaves in the background: none of it may turn up as a child of the recorder.
    """
    keep_orphans()
    reading, writing = os.pipe()
    os.write(writing, json.dumps(alert).encode() + b"\n")
    os.close(writing)
    told = {f"LEAKSCOPE_ALERT_{name.upper()}": str(alert[name]) for name in ("rule", "text", "value")}
    try:
        pid = os.posix_spawn(
            "/bin/sh",
            ["/bin/sh", "-c", command],
            {**os.environ, **told},
            file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0), (os.POSIX_SPAWN_DUP2, 2, 1)],
            setpgroup=0,
        )
    except OSError as error:
        return print(f"leakscope: the command of --on-alert could not be run: {error.strerror}", file=sys.stderr)
    os.close(reading)

    def end(*_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        print(f"leakscope: the command of --on-alert was ended after {COMMAND_S} s", file=sys.stderr, flush=True)
        os._exit(1)

    signal.signal(signal.SIGALRM, end)
    signal.alarm(COMMAND_S)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def keep_orphans() -> None:
    """As the recorder does, so that they are not adopted by it and taken for the job's."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def post(url: str, alert: dict[str, Any]) -> str | None:
    """Send it; None when it was taken, else one line that names the host only: the path is a secret."""
    from urllib.parse import urlsplit  # rarely needed

    host = urlsplit(url).hostname or ""
    reason = ""
    for pause_s in (*PAUSES_S, None):
        reason, again = attempt(url, body(host, alert))
        if not reason:
            return None
        if not again or pause_s is None:
            break
        time.sleep(pause_s)
    return f"the webhook at {host} did not accept the alert: {reason}"


def body(host: str, alert: dict[str, Any]) -> dict[str, Any]:
    """What that host understands."""
    line = f"leakscope on {alert['host']}: {alert['text']}"
    if host.endswith((".slack.com", ".slack-gov.com")):
        return {"text": line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    if any(host == known or host.endswith("." + known) for known in ("discord.com", "discordapp.com")):
        return {"content": line[:_DISCORD_CHARACTERS]}
    return alert


def without_login(url: str) -> tuple[str, dict[str, str]]:
    """``https://user@host/`` as an address and the header that says the same: urllib looks up all of it."""
    import base64
    from urllib.parse import unquote_to_bytes, urlsplit

    parts = urlsplit(url)
    login, at, place = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    user, _, password = login.partition(":")
    words = base64.b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)).decode()
    return parts._replace(netloc=place).geturl(), {"Authorization": f"Basic {words}"}


def attempt(url: str, content: dict[str, Any]) -> tuple[str, bool]:
    """Why it failed (empty when it did not), and whether another attempt makes sense."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    url, login = without_login(url)

    class Stays(HTTPRedirectHandler):
        """A redirected POST would arrive empty, or somewhere else."""

        def redirect_request(self, *_: object) -> None:
            return None

    headers = {"Content-Type": "application/json", "User-Agent": "leakscope", **login}
    try:
        with build_opener(Stays).open(Request(url, json.dumps(content).encode(), headers), timeout=REQUEST_S) as answer:
            answer.read(1)
        return "", False
    except HTTPError as error:
        return f"HTTP {error.code}", error.code == 429 or error.code >= 500
    except OSError as error:
        cause = getattr(error, "reason", error)
        return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__, True
    except (HTTPException, ValueError) as error:  # its text may hold the address
        return type(error).__name__, True


if __name__ == "__main__":
    sys.exit(main())
