"""Checks of the options of an order store, and of the files that it is given.

Promises: a wrong option is BadConfig before a file, a database or Redis is touched. Checked values can be
hashed and compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.core.check import (
    NAME_CHARS_MAX,
    SECONDS_MAX,
    Wrong,
    check_number,
    check_text,
    check_whole,
    shown,
)
from holdfast.errors import BadConfig, InvalidInput

WHOLE_MAX: Final = 2**63 - 1


def check_options(
    namespace: object,
    retain_seconds: object = 0.0,
    retain_max: object = 0,
    snapshot_log_bytes: object = 0,
    events_max: object = 0,
) -> None:
    check_text("namespace", namespace, most=NAME_CHARS_MAX, wrong=BadConfig)
    check_number("retain_seconds", retain_seconds, most=10 * SECONDS_MAX, wrong=BadConfig)
    for name, value in (
        ("retain_max", retain_max),
        ("snapshot_log_bytes", snapshot_log_bytes),
        ("events_max", events_max),
    ):
        check_whole(name, value, least=0, most=WHOLE_MAX, wrong=BadConfig)


def check_path(field: str, value: object, *, wrong: Wrong = InvalidInput) -> Path:
    """Checks the name of a file or a folder. An empty name would be the working directory."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise wrong(f"{field} is {shown(value)}: give the name of a file or a folder")
    return Path(value)
