"""Evidence of OOM kills: reads any log a person can get hold of and says who was killed, by what limit, and why.

Judges only what the text says; None stands wherever it does not. Standard library only: the analyzer of recordings
and the command `leakscope oom` both use it.
"""

from __future__ import annotations

from . import carriers, kernel, killers, notes, pods, programs, witnesses
from .events import Invocation, OomEvent, Reading, Task, as_json
from .telling import as_text, describe

__all__ = ["Invocation", "OomEvent", "Reading", "Task", "as_json", "as_text", "describe", "read"]


def read(data: bytes | str) -> Reading:
    """What a log says about OOM kills. Any text or bytes will do; nothing in it is an error."""
    data = carriers.unpacked(data)
    records = list(carriers.records(data))
    reader = kernel.Reader(records)
    objects = carriers.objects(data)
    told = [*killers.events(records), *witnesses.events(records, objects)]
    events = programs.once([*told, *witnesses.add_units(records, reader.events)])
    events = pods.joined(events, records, objects)
    events.sort(key=lambda event: event.line_number)
    return Reading(events, reader.invocations, notes.notes(records, events, reader.invocations))
