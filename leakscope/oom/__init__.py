"""Evidence of OOM kills: reads any log a person can get hold of and says who was killed, by what limit, and why.

Judges only what the text says; None stands wherever it does not. Standard library only: the analyzer of recordings
and the command `leakscope oom` both use it.
"""

from __future__ import annotations

from . import carriers, kernel, killers, notes, pods, programs, unread, witnesses
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
    with_units = witnesses.add_units(records, reader.events)
    understood = reader.lines | {event.line_number for event in (*told, *with_units)}
    events = pods.joined(programs.once([*told, *with_units]), records, objects)
    events.sort(key=lambda event: event.line_number)
    left = [record for record in unread.lines(records, understood) if not notes.knows(record)]
    said = notes.notes(records, events, reader.invocations, left)
    return Reading(events, reader.invocations, said, [record.line_number for record in left])
