"""``leakscope doctor``: what this host can tell."""

from __future__ import annotations

from ..errors import needs_linux
from ._shared import command, text_or_json, write_or_print


@command(examples=[("leakscope doctor", "before the first recording on a host")])
@text_or_json
def doctor(format_name: str) -> None:
    """Say which evidence this host and this user can give, and what to do about the gaps."""
    needs_linux("doctor")
    from .. import doctor as examination

    groups = examination.examine()
    text = examination.as_json(groups) if format_name == "json" else examination.as_text(groups)
    write_or_print(text, None, format_name)
