"""Options that commands share, each defined once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TypeAlias

from cyclopts import Parameter


class Output(StrEnum):
    """How data is printed."""

    TABLE = "table"
    WIDE = "wide"
    """A table with all columns, none of them cut."""
    JSON = "json"
    JSONL = "jsonl"
    NAME = "name"


class Color(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Progress(StrEnum):
    """How progress is shown."""

    AUTO = "auto"
    TTY = "tty"
    PLAIN = "plain"
    JSON = "json"
    QUIET = "quiet"


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """Options of every command that reads the store, directly or through a gateway."""

    url: Annotated[
        str | None, Parameter(help="The store; default: HOLDFAST_URL, holdfast.toml.")
    ] = None
    app: Annotated[
        str | None, Parameter(help="Use the store of the queue MODULE:QUEUE of your application.")
    ] = None
    gateway: Annotated[
        str | None,
        Parameter(help="Use this gateway, not the store; default: HOLDFAST_GATEWAY."),
    ] = None
    token: Annotated[
        str | None, Parameter(help="The token for the gateway; default: HOLDFAST_TOKEN.")
    ] = None
    output: Annotated[
        Output,
        Parameter(
            name=("--output", "-o"), help="How to print: wide cuts no column, name is ids only."
        ),
    ] = Output.TABLE
    color: Annotated[Color, Parameter(help="When to use colours.")] = Color.AUTO


COMMON = Common()

TaskId: TypeAlias = Annotated[
    str,
    Parameter(
        help="A task's id, a prefix of it that matches one task, its name at nodes, or @last."
    ),
]
TaskIds: TypeAlias = Annotated[
    str,
    Parameter(
        help="Ids, prefixes that match one task, names at nodes, or - to read ids from stdin."
    ),
]
Limit: TypeAlias = Annotated[
    int, Parameter(name=("--limit", "-n"), help="At most this many; 0: all.")
]
Flag: TypeAlias = Annotated[bool, Parameter(negative="")]
ExpectVersion: TypeAlias = Annotated[
    int | None,
    Parameter(name="--expect-version", help="Refuse the change if the version is another."),
]
DryRun: TypeAlias = Annotated[bool, Parameter(negative="", help="Only show what would happen.")]
Reason: TypeAlias = Annotated[
    str, Parameter(name=("--reason", "-m"), help="Recorded with the change.")
]
Patch: TypeAlias = Annotated[
    str | None,
    Parameter(help="Fields of the payload to change, as a JSON object; null removes a field."),
]
Query: TypeAlias = Annotated[
    str | None,
    Parameter(
        name=("--query", "-q"),
        help="Only those that match, as ?q= of the API.",
        allow_leading_hyphen=True,
    ),
]
After: TypeAlias = Annotated[
    str | None, Parameter(help="Where the previous page ended, as it has said.")
]
Yes: TypeAlias = Annotated[
    bool, Parameter(name=("--yes", "-y"), negative="", help="Do not ask for confirmation.")
]
Project: TypeAlias = Annotated[
    str | None, Parameter(help="The project; default: that of the token.")
]


@Parameter(name="*")
@dataclass(frozen=True)
class Change:
    """Options of every command that changes something."""

    reason: Reason = ""
    dry_run: DryRun = False


@Parameter(name="*")
@dataclass(frozen=True)
class VersionedChange(Change):
    """The same of an object that has a version."""

    expect_version: ExpectVersion = None

    def body(self) -> dict[str, object]:
        """What the API takes."""
        return {"reason": self.reason, "expected_version": self.expect_version}


CHANGE = Change()
VERSIONED = VersionedChange()
