"""Steps for many subjects, where the failure of one stops no other.

Promises: a subject whose step fails is logged and left alone, longer after each failure. A row that another
transaction holds is a failure of its subject. An outage of the store ends the look.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from holdfast.errors import StoreUnavailable
from holdfast.store.port import RowHeld

T = TypeVar("T")
BACKOFF_SECONDS: Final = (1.0, 5.0, 30.0, 300.0)
"""How long a subject whose step failed is left alone."""
FAILED_MAX: Final = 1_000
"""Subjects that are left alone at once. Those that failed first are tried again early."""
log: Final = logging.getLogger("holdfast.fleet")


class Attempts:
    """The steps of one kind, e.g. the plans of jobs."""

    def __init__(self, what: str, now: Callable[[], float]) -> None:
        """`what`: the step and the kind of its subjects, for the log."""
        self._what = what
        self._now = now
        self._failed: dict[str, tuple[int, float]] = {}
        self.troubles = 0
        """Unexpected errors."""

    def __len__(self) -> int:
        """Subjects that have failed and are tried again: a look takes that many more, so that they do not
        stand before others."""
        return len(self._failed)

    def is_waiting(self, subject: str) -> bool:
        return subject in self._failed and self._failed[subject][1] > self._now()

    async def run(self, subject: str, step: Callable[[], Awaitable[T]]) -> T | None:
        """The result of the step. None: it has failed, now or a short while ago."""
        if self.is_waiting(subject):
            return None
        try:
            result = await step()
        except RowHeld as error:
            seconds = self._fail(subject)
            log.warning(
                "%s %s is held up; it is tried again in %g s: %s",
                self._what,
                subject,
                seconds,
                error,
            )
            return None
        except StoreUnavailable:
            raise
        except Exception:
            self.troubles += 1
            seconds = self._fail(subject)
            log.exception("%s %s failed; it is tried again in %g s", self._what, subject, seconds)
            return None
        self._failed.pop(subject, None)
        return result

    def _fail(self, subject: str) -> float:
        times = self._failed.pop(subject, (0, 0.0))[0]
        seconds = BACKOFF_SECONDS[min(times, len(BACKOFF_SECONDS) - 1)]
        self._failed[subject] = (times + 1, self._now() + seconds)
        if len(self._failed) > FAILED_MAX:
            del self._failed[next(iter(self._failed))]
        return seconds
