"""Failures as data: how an exception is recorded, and how failures are grouped.

Promises: the stored evidence is bounded and has no secrets; failures with the same cause have the same
fingerprint even when ids, numbers and addresses in their messages differ. Never: keeps the exception object.
"""

from __future__ import annotations

import re
import traceback as tb
from typing import Final

from msgspec.structs import replace

from holdfast.core.codec import digest
from holdfast.core.redaction import DEFAULT
from holdfast.core.task import Failure, FailureKind

MESSAGE_CHARS_MAX: Final = 2_000
TRACEBACK_CHARS_MAX: Final = 8_000
BEFORE_IT: Final = "; the attempt before: "
"""Separates what a lost attempt says from the last known end."""
_PACKAGE: Final = __file__[: __file__.rindex("core")]
_VOLATILE: Final = re.compile(
    r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27,}|\d+|'[^']*'|\"[^\"]*\"", re.IGNORECASE
)


def fingerprint(task_type: str, error_type: str, message: str, location: str = "") -> str:
    """The group of a failure. Ids, numbers and quoted text in the message do not count."""
    return digest(task_type, error_type, _VOLATILE.sub("#", message)[:300], location)


def storable(text: str) -> str:
    """Escapes lone surrogates, e.g. of an undecodable file name, so that every store can write the text."""
    return text.encode("utf-8", "backslashreplace").decode()


def evidence(message: str, traceback: str = "") -> tuple[str, str]:
    """Message and traceback as they are stored: bounded, and without secrets. Twice the bound is redacted, so
    that no part of a secret stays at the cut."""
    text = DEFAULT.text(storable(traceback)[-2 * TRACEBACK_CHARS_MAX :])
    shown = DEFAULT.text(storable(message)[: 2 * MESSAGE_CHARS_MAX])
    return shown[:MESSAGE_CHARS_MAX], text[-TRACEBACK_CHARS_MAX:]


def message_of(error: BaseException) -> str:
    """The message of an exception, also of one that fails to give it."""
    error_type = type(error).__qualname__
    try:
        return storable(str(error)) or error_type
    except Exception as silent:
        return f"{error_type}, whose message cannot be read: {type(silent).__name__}"


def from_exception(
    task_type: str,
    error: BaseException,
    *,
    kind: FailureKind = FailureKind.ERROR,
    traceback: str | None = None,
) -> Failure:
    """The record of an exception that a handler raised. `traceback`: its text, if it was raised elsewhere;
    empty: the message says all that a caller needs."""
    frames = tb.extract_tb(error.__traceback__)
    location = f"{frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].name}" if frames else ""
    error_type = type(error).__qualname__
    message = message_of(error)
    text = formatted(error) if traceback is None else traceback
    shown, traceback = evidence(message, text)
    return Failure(
        kind=kind,
        message=shown,
        error_type=error_type,
        traceback=traceback,
        fingerprint=fingerprint(task_type, error_type, message, location),
    )


def formatted(error: BaseException) -> str:
    """The traceback of an exception, from the first frame of the application: those above it, of the
    engine, are the same for every handler."""
    shown = tb.TracebackException.from_exception(error)
    own = next((n for n, frame in enumerate(shown.stack) if not _is_engine(frame.filename)), None)
    if own:
        shown.stack = tb.StackSummary.from_list(shown.stack[own:])
    return "".join(shown.format())


def below_engine(stack: tb.StackSummary) -> tb.StackSummary:
    """The frames that a handler has on the stack: those below the last one of the engine. All, if none is."""
    engine = (n for n, frame in enumerate(stack) if _is_engine(frame.filename))
    own = stack[max(engine, default=-1) + 1 :]
    return tb.StackSummary.from_list(own) if own else stack


def _is_engine(filename: str) -> bool:
    return filename.startswith(_PACKAGE)


def plain(task_type: str, kind: FailureKind, message: str, *, cause: str | None = None) -> Failure:
    """A failure without an exception."""
    message = storable(message)
    return Failure(
        kind=kind,
        message=evidence(message)[0],
        fingerprint=fingerprint(task_type, kind.value, message),
        cause=cause,
    )


def after(lost: Failure, before: Failure | None) -> Failure:
    """The failure of an attempt of which nothing is known. It keeps how the last attempt with a known end
    failed, so that the row of the task still shows it. The fingerprint stays."""
    if before is None:
        return lost
    own, _, known = before.message.partition(BEFORE_IT)
    known = known if before.kind is FailureKind.LOST else own
    if not known:
        return lost
    message = f"{lost.message}{BEFORE_IT}{known}"[:MESSAGE_CHARS_MAX]
    return replace(lost, message=message)
