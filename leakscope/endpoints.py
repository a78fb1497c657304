"""Where metrics go: what a user writes for ``--metrics`` and ``--otlp``, checked before the job starts."""

from __future__ import annotations

import _socket  # socket itself would take the recorder 4 ms
from typing import TYPE_CHECKING, NamedTuple

from .errors import BadInput

if TYPE_CHECKING:
    import socket

LOOPBACK = "127.0.0.1"
OTLP_PORT = 4318
_PATH = "/v1/metrics"
_BACKLOG = 16


class Address(NamedTuple):
    """Where to listen. ``host`` is numeric: a name would have to be looked up, and that may take its time."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """``:9464`` is this computer alone; ``0.0.0.0:9464`` is for everybody. **Errors** BadInput."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BadInput(f"{text!r} is not an address to serve at: write it like :9464 or 0.0.0.0:9464")
    host = LOOPBACK if host in ("", "localhost") else host[1:-1] if host[:1] + host[-1:] == "[]" else host
    family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
    try:
        _socket.inet_pton(family, host)
    except OSError:
        raise BadInput(f"{host!r} is a name: an address to serve at is numeric, such as 0.0.0.0:{port}") from None
    return Address(host, int(port))


def listen(address: Address) -> socket.socket:
    """**Errors** BadInput where somebody listens there already, or the address is not this computer's."""
    import socket

    listener = None
    try:
        listener = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise BadInput(f"cannot serve metrics at {address}: {error.strerror}") from None
    return listener


def otlp_host(url: str) -> str:
    """To tell the user: of an address everything but the path, which may be a secret."""
    from urllib.parse import urlsplit

    return urlsplit(url).netloc


def otlp_url(text: str) -> str:
    """Where OTLP over HTTP takes metrics; ``otlp://host`` and a bare ``http://host:4318`` get their path.

    **Errors** BadInput.
    """
    from urllib.parse import urlsplit  # rarely needed

    scheme, separator, rest = text.partition("://")
    try:
        parts = urlsplit(f"http://{rest}" if scheme == "otlp" else text)
        port = parts.port
    except ValueError:
        port, parts = None, urlsplit("")
    if not separator or parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"{text!r} is not an address of OTLP over HTTP: write it like http://localhost:{OTLP_PORT}")
    if parts.username is not None or parts.password is not None:
        raise BadInput("the address for OTLP holds a login: put it into OTEL_EXPORTER_OTLP_HEADERS instead")
    if port == OTLP_PORT - 1:
        raise BadInput(f"port {port} takes OTLP by gRPC: this is OTLP over HTTP, whose port is {OTLP_PORT}")
    if scheme == "otlp" and port is None:
        parts = parts._replace(netloc=f"{parts.netloc}:{OTLP_PORT}")
    return parts._replace(path=_PATH if parts.path in ("", "/") else parts.path).geturl()
