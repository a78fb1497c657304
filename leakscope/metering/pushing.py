"""Sends figures by OTLP over HTTP, with the SDK of OpenTelemetry, from a process that has nothing else to do.

Headers, certificates and compression are the SDK's: OTEL_EXPORTER_OTLP_HEADERS and its like, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ..endpoints import otlp_host
from ..errors import BadInput, to_install
from .families import COUNTER, FAMILIES, INFO, Family
from .following import Following
from .readings import Reading

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

PERIOD_S = 15.0
REQUEST_S, LAST_REQUEST_S = 5.0, 2.0
SERVICE = "leakscope"


class Pusher:
    """Sends the readings of one recording to one collector. ``pushed`` and ``failed`` count the attempts."""

    def __init__(self, following: Following, url: str) -> None:
        """**Errors** BadInput where the SDK is not installed."""
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import InMemoryMetricReader
            from opentelemetry.sdk.resources import Resource
        except ImportError as error:
            raise BadInput(f"{error.name or 'opentelemetry'} is not installed here: {to_install('otlp')}") from None
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # what went wrong is told once, at the end
        self._following = following
        self._readings: dict[Family, list[Reading]] = {}
        self._exporter: Callable[..., OTLPMetricExporter] = partial(OTLPMetricExporter, endpoint=url)
        self._sender = self._exporter(timeout=REQUEST_S)
        about = {f"leakscope.{name}": value for name, value in following.about.items()}
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": SERVICE}
        self._reader = InMemoryMetricReader()
        provider = MeterProvider([self._reader], Resource.create({"host.name": os.uname().nodename, **about, **named}))
        meter = provider.get_meter("leakscope", following.about["version"])
        for family in FAMILIES:
            if family.kind != INFO:
                create = meter.create_observable_counter if family.kind == COUNTER else meter.create_observable_gauge
                create(family.otlp_name, [partial(self._observe, family)], family.otlp_unit, family.help)
        self.pushed = self.failed = 0

    def run(self, period_s: float = PERIOD_S, alive: int | None = None) -> None:
        """Until the recording ends, or ``alive`` (a pipe) is closed; then once more."""
        next_s = time.monotonic() + min(5.0, period_s)
        while not self._following.is_over:
            timeout_s = max(0.0, min(self._following.seconds_to_look(min(5.0, period_s)), next_s - time.monotonic()))
            ready = _ready([alive, self._following.descriptor], timeout_s)
            if alive in ready and not os.read(ready[ready.index(alive)] or 0, 1):
                break
            if self._following.descriptor in ready:
                self._following.listen()
            if self._following.seconds_to_look(min(5.0, period_s)) <= 0.0:
                self._following.look()
            if time.monotonic() >= next_s and not self._following.is_behind:
                self.push()
                next_s = time.monotonic() + period_s
        self._following.look_at_all()
        self._sender = self._exporter(timeout=LAST_REQUEST_S)
        self.push()

    def push(self) -> bool:
        """Send what is known now; whether the collector took it."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        self._readings = {}
        for reading in self._following.readings():
            self._readings.setdefault(reading.family, []).append(reading)
        data = self._reader.get_metrics_data()
        is_taken = data is not None and self._sender.export(data) == MetricExportResult.SUCCESS
        self.pushed, self.failed = self.pushed + is_taken, self.failed + (not is_taken)
        return is_taken

    def _observe(self, family: Family, options: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        return [Observation(reading.value, dict(reading.labels)) for reading in self._readings.get(family, ())]


def _ready(descriptors: list[int | None], timeout_s: float) -> list[int | None]:
    there = [each for each in descriptors if each is not None]
    if not there:
        time.sleep(timeout_s)
        return []
    return list(select.select(there, [], [], timeout_s)[0])


def push(following: Following, url: str, *, period_s: float = PERIOD_S, alive: int | None = None) -> int:
    """Push until the recording ends. Returns 2 if nothing was ever taken, else 0; says what failed."""
    pusher = Pusher(following, url)
    try:
        pusher.run(period_s, alive)
    finally:
        following.close()
    if pusher.failed:
        tried = pusher.pushed + pusher.failed
        print(f"leakscope: {pusher.failed} of {tried} pushes to {otlp_host(url)} were not accepted", file=sys.stderr)
    return 0 if pusher.pushed else 2
