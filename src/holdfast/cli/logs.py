"""The log of a command, on standard error.

Promises: every line passed the redaction rules: message, arguments, fields and tracebacks. `json`: one object
in each line, with the fields of the record (`extra`) beside the message.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from holdfast.core.redaction import Redaction

NOISY: Final = ("httpx2", "httpcore2", "uvicorn", "uvicorn.error", "websockets")
"""Libraries that log every connection and request as information. `--log-level debug` shows them."""
FORMAT: Final = "%(asctime)s %(levelname)-7s [%(process)d] %(name)s: %(message)s"


_OF_RECORD: Final = frozenset(
    (*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message")
)
"""What every record has. The rest are fields that the caller added."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class RedactingFormatter(logging.Formatter):
    """Formats a record, then hides its secrets."""

    def __init__(self, rules: Redaction) -> None:
        super().__init__(FORMAT)
        self._rules = rules

    def format(self, record: logging.LogRecord) -> str:
        return self._rules.text(super().format(record))


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON, with its secrets hidden."""

    def __init__(self, rules: Redaction) -> None:
        super().__init__()
        self._rules = rules

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _OF_RECORD and name not in line:
                line[name] = _plain(value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(self._rules.value(line))


def _plain(value: object) -> object:
    """A field as JSON. Text of any kind can be in a log, so nothing is refused."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def log_to_stderr(level: str, rules: Redaction, form: LogFormat = LogFormat.TEXT) -> None:
    """Sends the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    is_json = form is LogFormat.JSON
    handler.setFormatter(JsonFormatter(rules) if is_json else RedactingFormatter(rules))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    if level.upper() != "DEBUG":
        for name in NOISY:
            logging.getLogger(name).setLevel(logging.WARNING)
