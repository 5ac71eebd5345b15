"""What the agent does itself: `ping`, `facts`, `drain`, `update`.

Promises: `ping` and `facts` change nothing. `drain` stops new work until the agent is started again.
`update` is a command like others, so it survives the restart that it causes; the agent takes no work while
it runs.
"""

from __future__ import annotations

from typing import Final

import msgspec

PING: Final = "ping"
FACTS: Final = "facts"
DRAIN: Final = "drain"
UPDATE: Final = "update"
BUILTINS: Final = frozenset({PING, FACTS, DRAIN, UPDATE})


class Done(msgspec.Struct, frozen=True):
    """What a builtin that runs inside the agent answers."""

    stdout: bytes = b""
    drains: bool = False


def do(name: str, facts: dict[str, object]) -> Done:
    """Runs a builtin other than `update`."""
    match name:
        case "ping":
            return Done(b"pong\n")
        case "facts":
            return Done(msgspec.json.format(msgspec.json.encode(facts)) + b"\n")
        case _:
            return Done(b"draining\n", drains=True)
