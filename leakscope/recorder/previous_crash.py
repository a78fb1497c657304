"""What the earlier recording of the same name tells who records its command again. Runs in the recorder.

A recording says of itself under this key which command crashed with calls of our own agent on its stack. It is found as
text, in the journal or in the footer of the finished file: a start must not wait for pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..agent.masking import is_same_command
from . import naming

CRASHED_IN_AGENT = "crashed_in_agent"
_MARK = f'"{CRASHED_IN_AGENT}": '  # as json writes it; inside a string it has backslashes


def warnings(output: str, journal: str, command: Sequence[str]) -> list[str]:
    """A line for the user if the agent may have been what made this very command crash the time before."""
    for data in naming.written_down(output, journal):
        text = data.decode("utf-8", "replace")
        if (at := text.find(_MARK)) >= 0 and is_same_command(_value(text, at + len(_MARK)), command):
            crashed = "crashed while leakscope's own agent was running in it"
            shown = naming.shown(output)
            return [f"the earlier {shown} is of this command, which {crashed}: --agent off records without the agent"]
    return []


def _value(text: str, start: int) -> object:
    try:
        return json.JSONDecoder().raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None
