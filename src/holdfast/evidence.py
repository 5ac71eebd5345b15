"""What an error may carry of a task: its end and the evidence of its failure, by shape and not by class.

A `Task` of a queue has this shape, and the object that a client gets of one. An internal module.
Never: has data.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["EndedTask", "Evidence"]


class Evidence(Protocol):
    """The failure of a task, as its process recorded it."""

    @property
    def kind(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def error_type(self) -> str: ...

    @property
    def traceback(self) -> str: ...


class EndedTask(Protocol):
    """A task that ended without a result: a `Task`, or what a client gets of one."""

    @property
    def id(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def attempts(self) -> int: ...

    @property
    def failure(self) -> Evidence | None: ...
