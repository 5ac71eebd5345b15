"""How bad the network and the hosts of a simulation are."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from holdfast.errors import BadConfig

DELAY_SECONDS_MAX: Final = 60.0
SKEW_SECONDS_MAX: Final = 1e9
SHARES: Final = ("loss", "duplicate", "reorder", "crash", "partition", "broken")


class SimulatedFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Shares are between 0 and 1. Without any, links are perfect and hosts never fail."""

    loss: float = 0.0
    """Of messages, each way."""
    delay: tuple[float, float] = (0.0, 0.0)
    """Seconds that a message takes, each way: at least, at most."""
    duplicate: float = 0.0
    """Of requests: they arrive twice."""
    reorder: float = 0.0
    """Of requests: they arrive after later ones, and their sender has given them up."""
    crash: float = 0.0
    """Of executions: the agent is killed during it, at any step. Every other time its host loses power."""
    partition: float = 0.0
    """Of the time of each host, in which no message gets through."""
    broken: float = 0.0
    """Of hosts: their services do not start."""
    skew: float = 0.0
    """Seconds by which the clocks of hosts are wrong, at most."""

    @property
    def has_link_faults(self) -> bool:
        shares = self.loss + self.duplicate + self.reorder + self.partition
        return bool(shares or self.delay[1])


NO_FAULTS: Final = SimulatedFaults()


def check_faults(faults: SimulatedFaults) -> SimulatedFaults:
    """BadConfig names the value that is wrong."""
    for name in SHARES:
        share = getattr(faults, name)
        if not 0.0 <= share <= 1.0:
            raise BadConfig(f"{name} is {share:g}: give a share from 0 to 1")
    if faults.loss + faults.partition >= 1.0:
        raise BadConfig("loss and partition leave no message: give less than 1 together")
    low, high = faults.delay
    if not 0.0 <= low <= high <= DELAY_SECONDS_MAX:
        raise BadConfig(
            f"delay is {low:g}..{high:g}: give LOW..HIGH in seconds, at most {DELAY_SECONDS_MAX:g}"
        )
    if not 0.0 <= faults.skew <= SKEW_SECONDS_MAX:
        raise BadConfig(f"skew is {faults.skew:g}: give 0 to {SKEW_SECONDS_MAX:g} seconds")
    return faults


def parse_share(name: str, text: str) -> float:
    """`0.1` or `10%`."""
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number) / (100.0 if percent else 1.0)
    except ValueError:
        value = math.nan
    if rest or not 0.0 <= value <= 1.0:
        raise BadConfig(f"{name} is '{text}': give a share such as 0.1 or 10%")
    return value


def parse_delay(text: str, name: str = "delay") -> tuple[float, float]:
    """`0.05..0.5` or `0.2`, in seconds."""
    low, dots, high = text.strip().partition("..")
    try:
        pair = float(low), float(high if dots else low)
    except ValueError:
        pair = math.nan, math.nan
    if not 0.0 <= pair[0] <= pair[1] < math.inf:
        raise BadConfig(f"{name} is '{text}': give seconds such as 0.2 or 0.05..0.5")
    return pair
