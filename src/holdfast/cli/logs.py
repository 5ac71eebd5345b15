"""The log of a command, on standard error.

Promises: every line passed the redaction rules: message, arguments and tracebacks.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

from holdfast.core.redaction import Redaction

NOISY: Final = ("httpx2", "httpcore2", "uvicorn", "uvicorn.error", "websockets")
"""Libraries that log every connection and request as information. `--log-level debug` shows them."""
FORMAT: Final = "%(asctime)s %(levelname)-7s [%(process)d] %(name)s: %(message)s"


class RedactingFormatter(logging.Formatter):
    """Formats a record, then hides its secrets."""

    def __init__(self, rules: Redaction) -> None:
        super().__init__(FORMAT)
        self._rules = rules

    def format(self, record: logging.LogRecord) -> str:
        return self._rules.text(super().format(record))


def log_to_stderr(level: str, rules: Redaction) -> None:
    """Sends the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter(rules))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    if level.upper() != "DEBUG":
        for name in NOISY:
            logging.getLogger(name).setLevel(logging.WARNING)
