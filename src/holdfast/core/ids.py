"""Ids, made from a given time and given random bits.

Promises: task ids are UUIDs of version 7, so they sort by time. The ids of one `Ids` always increase,
even when the clock stands still or goes back. Never: reads the machine's randomness.
"""

from __future__ import annotations

from itertools import count
from typing import Final, Protocol

_VARIANT: Final = 1 << 63
"""The two bits before the random ones of a UUID."""
_RANDOM: Final = (1 << 62) - 1


def _repeated(number: int, count: int) -> int:
    """A number of 64 bits, this many times in a row."""
    return int.from_bytes(number.to_bytes(8, "big") * count, "big")


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
            head = self._begin(stamp >> 12)
        # One number and slices of its digits: a format of each group takes longer. A 1 in front keeps zeros.
        bits = _VARIANT | self._bits.getrandbits(62)
        digits = "%x" % ((0x1000 | stamp & 0xFFF) << 64 | bits)
        return f"{head}{digits[1:4]}-{digits[4:8]}-{digits[8:]}"

    def tasks(self, now: float, count: int) -> list[str]:
        """New task ids of one batch, in order. The random bits are drawn at once, which is much cheaper."""
        first = max(int(now * 1000) << 12, self._stamp + 1)
        self._stamp = first + count - 1
        bits = self._bits.getrandbits(64 * count)
        bits = bits & _repeated(_RANDOM, count) | _repeated(_VARIANT, count)
        digits = f"{bits:x}"
        made: list[str] = []
        while len(made) < count:
            stamp, done = first + len(made), len(made)
            head = self._begin(stamp >> 12)
            counters = range(stamp & 0xFFF, min(0x1000, (stamp & 0xFFF) + count - done))
            made += [
                f"{head}{counter:03x}-{digits[at : at + 4]}-{digits[at + 4 : at + 16]}"
                for counter, at in zip(counters, range(16 * done, 16 * count, 16), strict=False)
            ]
        return made

    def _begin(self, millis: int) -> str:
        """The digits that the ids of a millisecond begin with."""
        head = f"{millis >> 16:08x}-{millis & 0xFFFF:04x}-7"
        self._head = (millis, head)
        return head

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
