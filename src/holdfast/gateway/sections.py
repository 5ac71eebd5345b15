"""The sections of a server's settings beside `[server]`, and how a section is read.

Promises: `holdfast.toml`, then `HOLDFAST_SECTION__KEY` (or `..._FILE`, a file with the value), then a flag;
the last that has a value wins. An unknown section or key is refused, with the nearest name.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core.check import check_number, check_positive, check_whole
from holdfast.core.intervention import EXPIRES_SECONDS
from holdfast.core.worker_protocol import Window
from holdfast.core.worker_wire import WINDOW_BYTES, WINDOW_FRAMES
from holdfast.errors import BadConfig
from holdfast.sync.worker.group_commit import GATHER_SECONDS

S = TypeVar("S", bound=msgspec.Struct)
SECRET_BYTES_MAX: Final = 10_000
FILE: Final = "_file"
MS: Final = 1_000


class SyncSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Worker sync."""

    window_frames: int = WINDOW_FRAMES
    """messages of a worker that may wait for their acknowledgement"""
    window_bytes: int = WINDOW_BYTES
    """their bytes"""
    group_commit_ms: float = GATHER_SECONDS * MS
    """how long messages of workers wait for others, to share a commit"""

    def __post_init__(self) -> None:
        check_whole("window_frames", self.window_frames, least=1, most=10_000, wrong=BadConfig)
        check_whole("window_bytes", self.window_bytes, least=1_024, most=2**30, wrong=BadConfig)
        check_number("group_commit_ms", self.group_commit_ms, most=1_000, wrong=BadConfig)

    @property
    def window(self) -> Window:
        return Window(self.window_frames, self.window_bytes)

    @property
    def gather_seconds(self) -> float:
        return self.group_commit_ms / MS


class KeepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long ended things are kept, in seconds. None: as the queue is set. Without effect with `--workers`:
    the queue of the code has its own settings."""

    done: float | None = None
    """completed and aborted tasks"""
    dead: float | None = None
    """dead letters"""
    events: float | None = None
    """events of the feed"""
    conflicts: float | None = None
    """settled conflicts"""

    def queue_settings(self) -> dict[str, Any]:
        """The settings of a queue that are given, by name."""
        given = msgspec.structs.asdict(self)
        return {f"keep_{name}": value for name, value in given.items() if value is not None}


class InterventionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Interventions of operators."""

    expiry_seconds: float = EXPIRES_SECONDS
    """how long a command is sent to its runner, unless the request says it"""

    def __post_init__(self) -> None:
        check_positive("expiry_seconds", self.expiry_seconds, most=1e9, wrong=BadConfig)


def read_section(
    kind: type[S],
    name: str,
    table: Mapping[str, object],
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    *,
    lists: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
) -> S:
    """One section. `lists`: keys whose variable has commas between its values. `hidden`: keys that only
    `flags` may have."""
    given = dict(table)
    prefix = f"HOLDFAST_{name.upper()}__"
    for variable, text in environ.items():
        if variable.startswith(prefix):
            key, value = _value_of(variable, variable.removeprefix(prefix).lower(), text)
            given[key] = tuple(value.split(",")) if key in lists else value
    known = [field for field in kind.__struct_fields__ if field not in hidden]
    for key in given:
        if key not in known:
            raise BadConfig(f"[{name}] has no setting '{key}'{nearest(key, known)}")
    given |= {key: value for key, value in flags.items() if value is not None}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadConfig(f"[{name}]: {error}") from None


def check_variables(environ: Mapping[str, str], sections: tuple[str, ...]) -> None:
    """BadConfig for a variable of a section that does not exist."""
    for variable in environ:
        section, has_key, _ = variable.removeprefix("HOLDFAST_").partition("__")
        if variable.startswith("HOLDFAST_") and has_key and section.lower() not in sections:
            text = nearest(section.lower(), sections)
            raise BadConfig(f"{variable}: there is no section '{section.lower()}'{text}")


def nearest(name: str, known: Any) -> str:
    """What a message about an unknown name adds."""
    close = get_close_matches(name, known, n=1)
    return (
        f": did you mean '{close[0]}'?" if close else f": it is one of {', '.join(sorted(known))}"
    )


def _value_of(variable: str, key: str, text: str) -> tuple[str, str]:
    if not key.endswith(FILE):
        return key, text
    try:
        content = Path(text).read_text("utf-8")[:SECRET_BYTES_MAX].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{variable} cannot be read: {type(error).__name__}") from None
    return key.removesuffix(FILE), content
