"""The end of the demo: what happened, whether it was as claimed, and what to try next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from statistics import median
from typing import Any

import msgspec

from holdfast.cli.demo.play import Killed, Story
from holdfast.cli.demo.proof import Proof
from holdfast.cli.demo.tally import Tally
from holdfast.core.address import shown_url
from holdfast.core.task import Priority


def as_json(proof: Proof, tally: Tally, story: Story, url: str) -> dict[str, Any]:
    """For programs."""
    return {
        "ok": proof.holds,
        "url": shown_url(url),
        "tasks": len(tally.tasks),
        "events": sum(tally.kinds.values()),
        "retries": tally.retries,
        **msgspec.to_builtins(proof),
        "story": msgspec.to_builtins(story),
        "median_wait_seconds": {name: median(w) for name, w in tally.first_waits().items()},
    }


def lines(proof: Proof, tally: Tally, story: Story, url: str, *, kept: bool) -> Iterator[str]:
    """For people."""
    events = sum(tally.kinds.values())
    yield f"{len(tally.tasks)} tasks, {events} events in {story.seconds:.1f} s"
    yield ""
    for status, count in sorted(proof.by_status.items()):
        note = "  dead letters, left for you to look at" if status == "failed" else ""
        yield f"  {status:<16} {count:>4}{note}"
    yield f"  {'lost':<16} {proof.lost:>4}"
    yield f"  {'completed twice':<16} {proof.completed_twice:>4}"
    yield f"  {'retries':<16} {tally.retries:>4}  after failures, each at its time in the store"
    yield f"  {'replayed':<16} {story.replayed + story.edited:>4}  {_replays(tally, story)}"
    yield ""
    yield from _of_the_kill(proof, story.killed)
    waits = tally.first_waits()
    said = ", ".join(
        f"{p.name.lower()} {median(waits[p.name.lower()]):.1f} s"
        for p in Priority
        if p.name.lower() in waits
    )
    yield f"Median wait for the first start: {said}."
    yield ""
    for claim in proof.claims:
        found = "" if claim.found == "0" else f" ({claim.found})"
        yield f"  {'proved' if claim.holds else 'FALSE '}  {claim.name}{found}"
    if kept:
        yield ""
        yield from _next(url, proof)


def _replays(tally: Tally, story: Story) -> str:
    revived = tally.kinds["task.revived"]
    return f"of {story.dead} dead letters; {revived} dependents were revived with them"


def _of_the_kill(proof: Proof, killed: Killed) -> Iterator[str]:
    held = len(proof.held)
    yield f"Worker {killed.pid} was killed with SIGKILL and held {held} tasks. Their leases ran out;"
    yield (
        f"{proof.recovered} of {held} ran again on other workers, the last one "
        f"{proof.recovered_seconds:.1f} s after the kill."
    )
    yield f"Its parent had replaced it by worker {killed.new_pid} after {killed.back_after:.1f} s."


def _next(url: str, proof: Proof) -> Iterator[str]:
    task = proof.held[0] if proof.held else "@last"
    yield "Try next:"
    is_secret = shown_url(url) != url
    yield f"  export HOLDFAST_URL={'...  # the one that you gave' if is_secret else shlex.quote(url)}"
    yield "  holdfast stats"
    yield f"  holdfast task history {task}    # a task of the killed worker"
    yield "  holdfast dlq groups"
    yield "  holdfast events tail"
