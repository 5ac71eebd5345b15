"""Safeguards, turned off one at a time: a simulator that does not notice proves nothing.

Each ablation patches the product in memory, for the length of a `with`. The package `holdfast` contains none
of them. To add one, define its swap in the file of its subject.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from proof.ablations.engine import ENGINE
from proof.ablations.fleet import FLEETS
from proof.ablations.hub import HUBS
from proof.ablations.loops import LOOPS
from proof.ablations.orders import ORDERS
from proof.ablations.rules import RULES
from proof.ablations.state import STATE
from proof.ablations.swap import swapped

ABLATIONS: Final = {
    each.name: each for each in (*ENGINE, *RULES, *STATE, *LOOPS, *ORDERS, *HUBS, *FLEETS)
}


def ablated(name: str) -> AbstractContextManager[None]:
    """The product without one safeguard."""
    return swapped(ABLATIONS[name].make())
