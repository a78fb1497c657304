"""The text of metrics, as the parsers of Prometheus read it."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from leakscope.metering.exposition import prefers_openmetrics, written
from leakscope.metering.families import COUNTER, FAMILIES, INFO
from tests.metering.scenes import growing

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_the_official_parser_reads_back_every_value(openmetrics: bool) -> None:
    parser = pytest.importorskip(f"prometheus_client.{'openmetrics.' if openmetrics else ''}parser")
    told = growing().told()
    found = list(parser.text_string_to_metric_families(written(told, openmetrics=openmetrics)))
    read = {(s.name, frozenset(s.labels.items())): s.value for family in found for s in family.samples}
    assert read == {(r.family.sample_name, frozenset(r.labels.items())): float(r.value) for r in told}
    by_name = {family.name: family for family in found}
    for family in FAMILIES:
        its = by_name.get(family.name) or by_name[family.sample_name]
        assert its.documentation == family.help
        if openmetrics:
            assert (its.type, its.unit) == (family.kind, family.unit)
        else:
            assert its.type == ("gauge" if family.kind == INFO else family.kind)


@pytest.mark.slow
def test_promtool_finds_no_fault() -> None:
    promtool = os.environ.get("LEAKSCOPE_PROMTOOL") or shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    text = written(growing().told(), openmetrics=False)
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4", False),
        (PROMETHEUS_2, True),
        (PROMETHEUS_3, True),
        ("application/openmetrics-text; version=2.0.0", False),
        ("application/openmetrics-text;q=0.1,text/plain", False),
        ("application/openmetrics-text;q=none,;;,=", False),
    ],
)
def test_the_format_is_what_the_reader_rates_highest(accept: str, openmetrics: bool) -> None:
    assert prefers_openmetrics(accept) is openmetrics


def test_a_collector_makes_the_same_names_of_those_for_opentelemetry() -> None:
    """As OpenTelemetry specifies for Prometheus: dots to underscores, the unit behind, total of counters."""
    units = {"By": "_bytes", "s": "_seconds", "By/h": "_bytes_per_hour", "": ""}
    for family in FAMILIES:
        if family.kind != INFO:
            made = family.otlp_name.replace(".", "_") + units[family.otlp_unit]
            assert made + ("_total" if family.kind == COUNTER else "") == family.sample_name
    assert len({family.otlp_name for family in FAMILIES}) == len(FAMILIES)
