"""Which option of `run`, `rehearse` and `job set` gives a field of the request: one table.

Promises: a message that begins with a field names the option in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.errors import HoldfastError

FLAGS: Final = {
    "budget.failed": "--max-fail",
    "budget.timeout": "--max-timeout",
    "budget.lost": "--max-lost",
    "budget.unreachable": "--max-unreachable",
    "canary_budget": "--max-canary",
    "waves": "--waves",
    "max_in_flight": "--max-in-flight",
    "rate_per_second": "--rate",
    "consecutive": "--consecutive",
    "on_breach": "--on-breach",
    "bake_seconds": "--bake",
    "gate": "--gate",
    "straggler_seconds": "--stragglers",
    "order": "--order",
    "seed": "--order-seed",
    "command_type": "--type",
    "exec_timeout_seconds": "--timeout",
    "not_after_seconds": "--not-after",
    "idempotent": "--idempotent",
    "retry.max_retries": "--retries",
    "on_restart": "--on-restart",
    "env": "--env",
    "args": "--arg",
    "secrets": "--secret",
    "priority": "--priority",
    "metadata": "--metadata",
    "selector": "--hosts",
    "external_id": "--external-id",
    "reason": "--reason",
    "project": "--project",
}
"""By the field, as messages of the server name it. `command` is the argument."""
_FIELD: Final = re.compile(
    rf"(?P<field>{'|'.join(map(re.escape, FLAGS))})"
    r"(?:\[(?P<nth>\d+)\]|\.(?P<name>\S+))?(?= (?:is|has|names)\b)"
)


def with_flag(message: str) -> str:
    """The message with the option in place of the field that it begins with."""
    found = _FIELD.match(message)
    if found is None:
        return message
    flag = FLAGS[found["field"]]
    if found["nth"] is not None:
        flag = f"size {int(found['nth']) + 1} of {flag}"
    elif found["name"] is not None:
        flag = f"{flag} {found['name']}"
    return flag + message[found.end() :]


@contextmanager
def named_by_flags() -> Iterator[None]:
    """Errors about the request name options."""
    try:
        yield
    except HoldfastError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (with_flag(error.args[0]), *error.args[1:])
        raise
