"""The epoch of a project's blocks: it rises with every change after which they may match other hosts.

Promises: blocks that were read after an epoch count as long as the epoch is the same. Agents say with each
sync which epoch they know. No host that the change forbids starts after its commit.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.fleet.rows import own
from holdfast.fleet.starts import hold_starts
from holdfast.store.script import Script, call


def read_epochs(projects: Collection[str]) -> Script[dict[str, int]]:
    """The epoch of each project. One whose blocks never changed has 0."""
    rows = yield call(own("block_epochs"), ids=sorted(projects))
    return dict.fromkeys(projects, 0) | dict(rows)


def read_epoch(project: str) -> Script[int]:
    return (yield from read_epochs([project]))[project]


def raise_epoch(project: str, now: float, *, forbids: bool = True) -> Script[int]:
    """Returns the new epoch. `forbids`: a host may start less from now on, so starts are held. Locks the
    project: it runs behind other rows, before audit and feed."""
    if forbids:
        yield from hold_starts()
    rows = yield call(own("raise_block_epoch"), id=project, now=now)
    epoch: int = rows[0][0]
    return epoch
