"""What a finding is about: whose memory, and which line of the user's to edit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypedDict

from ..findings import Subject
from ..storage import Row
from .tables import int_of, text_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Whose(Protocol):
    """A process, in any of the shapes it is known by."""

    @property
    def pid(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def role(self) -> str | None: ...


class Spot(Protocol):
    """A line of the user's: of a source, of a stack, or where a class or a function stands."""

    @property
    def file(self) -> str | None: ...

    @property
    def line(self) -> int | None: ...

    @property
    def function(self) -> str | None: ...


class Definition(NamedTuple):
    """Where the owner of something is defined: the second best, where no line was found that adds to it."""

    file: str | None = None
    line: int | None = None
    function: str | None = None


class Held(TypedDict, total=False):
    """What a ``Subject`` says of who holds the memory."""

    holder: str | None
    variable: str | None
    path: str | None
    type: str | None
    module: str | None


class About(Held, total=False):
    """What else a ``Subject`` may say."""

    device: str | None
    library: str | None


def definition_of(row: Row | None, function: str | None = None) -> Definition:
    """Where the owner stands, by a row of ``holders`` or another table that names it."""
    return Definition(text_of(row, "owner_file"), int_of(row, "owner_line"), function)


def subject_of(process: Whose | None = None, line: Spot | None = None, **about: Unpack[About]) -> Subject:
    """The subject with what its process and its line say."""
    subject = Subject(**about)
    if process is not None:
        subject = replace(subject, pid=process.pid, process=process.name, role=process.role)
    if line is not None:
        subject = replace(subject, file=line.file, line=line.line, function=line.function)
    return subject
