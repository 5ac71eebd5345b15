"""The JSON form of an error (RFC 9457), for the command line and the gateways.

Promises: the names are stable, because programs read them. `code` and `exit` are those of the error tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.errors import HoldfastError


class Problem(NamedTuple):
    """An error as its reader sees it."""

    code: str
    message: str
    exit: int
    """The exit code of a command that ends with the error."""
    http: int
    """The status of an HTTP response that reports the error."""
    retryable: bool = False
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The problem object, of the media type `application/problem+json`. Notes are not part of it: they
        may name files of the application."""
        return {
            "type": f"urn:holdfast:error:{self.code}",
            "title": self.code.replace("-", " "),
            "status": self.http,
            "detail": self.message,
            "code": self.code,
            "exit": self.exit,
            "retryable": self.retryable,
        }


def problem_of(error: HoldfastError) -> Problem:
    return Problem(
        error.code,
        str(error),
        error.exit_code,
        error.http_status,
        error.retryable,
        tuple(getattr(error, "__notes__", ())),
    )
