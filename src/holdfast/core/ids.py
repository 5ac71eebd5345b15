"""Ids, made from a given time and given random bits.

Promises: task ids are UUIDs of version 7, so they sort by time. The ids of one `Ids` always increase,
even when the clock stands still or goes back. Never: reads the machine's randomness.
"""

from __future__ import annotations

from itertools import count
from typing import Final, Protocol

_VARIANT: Final = 1 << 63
"""The two bits before the random ones of a UUID."""


class Bits(Protocol):
    """A source of random bits, e.g. `random.Random(seed)` or `random.SystemRandom()`."""

    def getrandbits(self, k: int, /) -> int: ...


class Ids:
    """Makes the ids of one process. Threads may share it."""

    __slots__ = ("_bits", "_head", "_records", "_stamp")

    def __init__(self, bits: Bits) -> None:
        self._bits = bits
        self._stamp = 0
        self._head = (0, "00000000-0000-7")
        """A millisecond, and the digits that the ids of it begin with. Replaced as a whole, for threads."""
        self.start_over()

    def start_over(self) -> None:
        """Call this after the bits were seeded again, e.g. in a forked child: the counter of records
        restarts."""
        self._records = count(self._bits.getrandbits(21) + 1)

    def task(self, now: float) -> str:
        """A new task id: 48 bits of milliseconds, a 12-bit counter and 62 random bits."""
        stamp = int(now * 1000) << 12
        if stamp <= self._stamp:
            stamp = self._stamp + 1
        self._stamp = stamp
        millis, head = self._head
        if millis != stamp >> 12:
            millis = stamp >> 12
            head = f"{millis >> 16:08x}-{millis & 0xFFFF:04x}-7"
            self._head = (millis, head)
        # One number and slices of its digits: a format of each group takes longer. A 1 in front keeps zeros.
        bits = _VARIANT | self._bits.getrandbits(62)
        digits = "%x" % ((0x1000 | stamp & 0xFFF) << 64 | bits)
        return f"{head}{digits[1:4]}-{digits[4:8]}-{digits[8:]}"

    def record(self, now: float) -> int:
        """A new id of a feed record: 41 bits of milliseconds and a 21-bit counter with a random start."""
        return int(now * 1000) << 21 | next(self._records) & 0x1FFFFF

    def secret(self) -> str:
        """128 random bits, e.g. for the token of a lock."""
        return f"{self._bits.getrandbits(128):032x}"

    def random_unit(self) -> float:
        """A random number in [0, 1), e.g. to spread retries."""
        return self._bits.getrandbits(53) / 2**53

    def token(self) -> str:
        """A short random name, e.g. for a node's incarnation."""
        return f"{self._bits.getrandbits(32):08x}"
