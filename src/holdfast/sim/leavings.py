"""What a run leaves when it is thrown away: coroutines in the middle, and log records.

Promises: nothing of a run complains or runs on after its end. Never: changes the course of a run.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

UNWIND_MAX: Final = 50
"""Awaits in the ends of one coroutine that is thrown away."""


def unwind(coroutine: Any) -> None:
    """Closes a coroutine, also if it awaits something in each `finally` on the way out."""
    for _ in range(UNWIND_MAX):
        try:
            coroutine.close()
        except RuntimeError:
            continue  # it has awaited instead of ending
        except BaseException:
            return
        return


@contextmanager
def plain_records() -> Iterator[None]:
    """Log records have errors as text. A handler that keeps records would keep the frames of the run, whose
    iterators complain when they are collected in a later one."""
    make, formatter = logging.getLogRecordFactory(), logging.Formatter()

    def plain(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        if record.exc_info:
            record.exc_text = formatter.formatException(record.exc_info)
            record.exc_info = None
        if isinstance(record.args, tuple) and any(
            isinstance(a, BaseException) for a in record.args
        ):
            record.msg, record.args = record.getMessage(), ()
        return record

    logging.setLogRecordFactory(plain)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)


@contextmanager
def silence() -> Iterator[None]:
    """Suppresses the complaints of discarded coroutines about awaits in their `finally`."""
    original = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = original
