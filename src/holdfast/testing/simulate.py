"""The simulator for users' own tests: their handlers on several nodes, under faults, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.queue.queue import Queue
from holdfast.sim.campaign import Options, Report, campaign
from holdfast.sim.own import own_handlers


def simulated(
    queue: Queue,
    *,
    payloads: Mapping[str, Sequence[object]] | None = None,
    seeds: int = 5,
    first_seed: int = 0,
    hours: float = 0.05,
    nodes: int | None = None,
    faults: Sequence[str] | None = None,
) -> Report:
    """Runs the queue's async handlers under faults that each seed draws; AssertionError says which law
    was broken, by which seed, with a timeline. `payloads` are what tasks of a type get, one of them each."""
    own = own_handlers(queue, payloads or {})
    options = Options(hours=hours, nodes=nodes, faults=None if faults is None else tuple(faults))
    report = campaign(range(first_seed, first_seed + seeds), options, own=own)
    for verdict in report.bad:
        told = "\n".join(
            f"  {law}: {text}" for law, texts in verdict.broken.items() for text in texts[:3]
        )
        raise AssertionError(f"seed {verdict.seed} broke:\n{told}\n{verdict.timeline}")
    return report
