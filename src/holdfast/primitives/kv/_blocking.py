"""Commands that may wait in the store before they answer: `XREAD` with `BLOCK`.

Promises: every wait has a limit, in memory and live; the words of the command contain it. Never: an
unlimited wait (`BLOCK 0`), in which a lost connection would look like a quiet stream.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.check import shown
from holdfast.primitives.kv._op import Words
from holdfast.primitives.kv.errors import BadCommand

BLOCK_MS_MAX: Final = 3_600_000
DIGITS_MAX: Final = 18
"""A longer number exceeds the limit, and may exceed what Python parses."""


def wait_seconds(words: Words) -> float:
    """How long the command may wait for an answer; 0 when it does not wait."""
    if words[0] != "XREAD":
        return 0.0
    block_ms: int | None = None
    for name, value in zip(words[1::2], words[2::2], strict=False):
        if name.upper() == "STREAMS":
            break
        if name.upper() == "BLOCK" and value.isdecimal():
            block_ms = int(value) if len(value) <= DIGITS_MAX else BLOCK_MS_MAX + 1
    return 0.0 if block_ms is None else checked_ms(block_ms) / 1_000


def checked_ms(block_ms: int) -> int:
    if not 1 <= block_ms <= BLOCK_MS_MAX:
        raise BadCommand(
            f"block_ms is {shown(block_ms)}: give a whole number from 1 to {BLOCK_MS_MAX} (one hour)"
        )
    return block_ms
