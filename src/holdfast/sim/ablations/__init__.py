"""Safeguards, turned off one at a time: a simulator that does not notice proves nothing.

Each ablation patches the product in memory, for the length of a `with`. Only the proof uses them. To add
one, define its swap in the file of its subject.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from holdfast.sim.ablations.engine import ENGINE
from holdfast.sim.ablations.loops import LOOPS
from holdfast.sim.ablations.orders import ORDERS
from holdfast.sim.ablations.rules import RULES
from holdfast.sim.ablations.state import STATE
from holdfast.sim.ablations.swap import swapped

ABLATIONS: Final = {each.name: each for each in (*ENGINE, *RULES, *STATE, *LOOPS, *ORDERS)}


def ablated(name: str) -> AbstractContextManager[None]:
    """The product without one safeguard."""
    return swapped(ABLATIONS[name].make())
