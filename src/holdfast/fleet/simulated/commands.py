"""What a simulated host does with a command, by its words. Nothing is executed.

    noop, true      ends at once with 0            echo WORDS...    prints the words
    false           ends at once with 1            flood BYTES      prints this many bytes
    exit CODE       ends at once with this code    sleep SECONDS    takes this long
    systemctl ...   takes a moment, ends with 0; with 1 on a broken host

A shell command is read in the same way, as one simple command. Everything else ends with 127. A rehearsal
assumes instead how long commands take and whether they fail: then only `sleep` has its own time, and
`false` and `exit` their own codes.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

NOT_FOUND: Final = 127
USAGE: Final = 2
FLOOD_BYTES_MAX: Final = 256 * 1024 * 1024
SLEEP_SECONDS_MAX: Final = 86_400.0
SERVICE_SECONDS: Final = (0.05, 0.5)
"""How long `systemctl` takes."""
_LINE: Final = b"simulated output\n"


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """What a command does."""

    exit_code: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)
    """At least, at most."""
    stdout: bytes = b""
    flood: int = 0
    """Bytes of output beside `stdout`."""
    stderr: bytes = b""


SUCCEEDS: Final = Behaviour()


def behaviour(
    argv: Sequence[str], assumed: Behaviour | None = None, *, is_broken: bool = False
) -> Behaviour:
    """`assumed`: what a command does whose words say nothing else. `is_broken`: services of the host do not
    start."""
    words = list(argv)
    if len(words) == 3 and words[1] == "-c":
        try:
            words = shlex.split(words[2])
        except ValueError:
            return _wrong(words[0], "the command cannot be read")
    if not words:
        return SUCCEEDS
    name = words[0].rpartition("/")[2]
    if is_broken and name == "systemctl":
        return _broken(words)
    known = _known(name, words[1:])
    if assumed is not None:
        return assumed if known is None else _assumed(name, known, assumed)
    if known is not None:
        return known
    text = f"{name}: a simulated host does not know this command\n"
    return Behaviour(exit_code=NOT_FOUND, stderr=text.encode())


def _assumed(name: str, known: Behaviour, assumed: Behaviour) -> Behaviour:
    return replace(
        known,
        exit_code=known.exit_code or assumed.exit_code,
        seconds=known.seconds if name == "sleep" else assumed.seconds,
    )


def _known(name: str, args: Sequence[str]) -> Behaviour | None:
    match name:
        case "noop" | "true" | ":":
            return SUCCEEDS
        case "false":
            return Behaviour(exit_code=1)
        case "echo":
            return Behaviour(stdout=" ".join(args).encode() + b"\n")
        case "exit":
            code = _number(args, 255)
            return _wrong(name, "give a code") if code is None else Behaviour(exit_code=int(code))
        case "sleep":
            seconds = _number(args, SLEEP_SECONDS_MAX)
            return (
                _wrong(name, "give seconds")
                if seconds is None
                else Behaviour(seconds=(seconds, seconds))
            )
        case "flood":
            size = _number(args, FLOOD_BYTES_MAX)
            return _wrong(name, "give bytes") if size is None else Behaviour(flood=int(size))
        case "systemctl":
            return Behaviour(seconds=SERVICE_SECONDS)
        case _:
            return None


def _broken(words: Sequence[str]) -> Behaviour:
    text = f"Job for {words[-1]} failed: the disk of this host is full.\n"
    return Behaviour(exit_code=1, seconds=SERVICE_SECONDS, stderr=text.encode())


def _number(args: Sequence[str], most: float) -> float | None:
    try:
        value = float(args[0])
    except (IndexError, ValueError):
        return None
    return value if 0.0 <= value <= most else None


def _wrong(name: str, text: str) -> Behaviour:
    return Behaviour(exit_code=USAGE, stderr=f"{name}: {text}\n".encode())


def flood_of(start: int, size: int) -> bytes:
    """Bytes of a flood, from any place."""
    begin = start % len(_LINE)
    return (_LINE * ((begin + size) // len(_LINE) + 1))[begin : begin + size]
