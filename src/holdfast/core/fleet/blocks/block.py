"""Blocks: what keeps commands off hosts, when, and what follows.

Promises: a block that refuses wins over one that holds; a block whose selector cannot be evaluated, e.g.
because its group is gone, counts for every host; a block counts neither before its time nor after it. The
same function judges at planning, at the offer and on the agent. Never: I/O, clocks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.core.check import check_name, check_text
from holdfast.core.errors import BadSelector
from holdfast.core.fleet.blocks import window as windows
from holdfast.core.fleet.hosts import selector as selectors
from holdfast.core.fleet.hosts.selector_parse import Selector, glob_pattern, parse
from holdfast.core.fleet.model import Block, BlockEffect, Host, OnLift, OnRunning
from holdfast.core.wire import time_text
from holdfast.errors import InvalidInput

NO_GROUPS: Final[Mapping[str, Selector]] = {}


class Refused(msgspec.Struct, frozen=True):
    """The command does not run on the host."""

    block: Block
    until: float | None = None
    """When the block ends by itself. None: when it is lifted."""


class Held(msgspec.Struct, frozen=True):
    """The command waits until the block ends."""

    block: Block
    until: float | None = None


class LiftAction(StrEnum):
    """What becomes of an execution that a block held."""

    REQUEUE = "requeue"
    EXPIRE = "expire"
    """Its time is over: kind `expired`."""
    DROP = "drop"
    """It ends: kind `skipped`."""
    REAPPROVE = "reapprove"
    """Its job asks for another approval."""
    HOLD = "hold"
    """Another block holds it."""
    REFUSE = "refuse"
    """Another block refuses it."""


# -- matching ----------------------------------------------------------------------------------------


def matches_type(block: Block, command_type: str) -> bool:
    return glob_pattern(block.command_type).fullmatch(command_type) is not None


def matches_host(block: Block, host: Host, groups: Mapping[str, Selector] = NO_GROUPS) -> bool:
    if block.selector is None:
        return block.host_id == host.id
    try:
        return selectors.matches(_parsed(block.selector), host, groups)
    except BadSelector:
        return True


def by_host(
    blocks: Sequence[Block], hosts: Sequence[Host], groups: Mapping[str, Selector] = NO_GROUPS
) -> dict[str, list[Block]]:
    """The blocks about each host, by its id, in their order. Each selector is evaluated once for all."""
    found: dict[str, list[Block]] = {host.id: [] for host in hosts}
    index: selectors.HostIndex | None = None
    for block in blocks:
        if block.selector is None:
            if block.host_id in found:
                found[block.host_id].append(block)
            continue
        index = index or selectors.HostIndex(hosts, groups)
        try:
            matching: Sequence[Host] = index.select(_parsed(block.selector))
        except BadSelector:
            matching = hosts
        for host in matching:
            found[host.id].append(block)
    return found


def matches(
    block: Block, host: Host, command_type: str, groups: Mapping[str, Selector] = NO_GROUPS
) -> bool:
    """Whether the block is about this command on this host, at whatever time."""
    return matches_type(block, command_type) and matches_host(block, host, groups)


@lru_cache(maxsize=1_000)
def _parsed(text: str) -> Selector:
    return parse(text)


# -- time --------------------------------------------------------------------------------------------


def is_over(block: Block, now: float) -> bool:
    """Whether the block was lifted or has expired."""
    if block.lifted_at is not None and block.lifted_at <= now:
        return True
    return block.expires_at is not None and block.expires_at <= now


def is_in_force(block: Block, now: float) -> bool:
    """Whether the block counts now: it is not over, and its window is open."""
    if is_over(block, now):
        return False
    if block.window_json is None:
        return True
    return windows.state_at(windows.read_window(block.window_json), now).is_open


def ends_runs(block: Block, now: float) -> bool:
    """Whether the block ends what runs on its hosts now. In doubt it does not."""
    if block.on_running is not OnRunning.ABORT or not is_in_force(block, now):
        return False
    if block.window_json is None:
        return True
    return windows.state_at(windows.read_window(block.window_json), now).is_known


def ends_at(block: Block, now: float) -> float | None:
    """When a block in force stops to count by itself. None: when it is lifted."""
    ends = [block.expires_at]
    if block.window_json is not None:
        ends.append(windows.state_at(windows.read_window(block.window_json), now).until)
    return min((end for end in ends if end is not None), default=None)


def changes_at(block: Block, now: float) -> float | None:
    """When the block starts or stops to count by itself. None: never."""
    if is_over(block, now):
        return None
    at = ends_at(block, now)
    if is_in_force(block, now):
        return at
    # Its window is closed. A block that expires before the next one never counts again.
    return None if at == block.expires_at else at


def next_change(blocks: Sequence[Block], now: float) -> float | None:
    """The next time at which one of the blocks starts or stops to count by itself. None: never."""
    changes = (changes_at(block, now) for block in blocks)
    return min((at for at in changes if at is not None), default=None)


# -- judgement ---------------------------------------------------------------------------------------


def verdict(
    blocks: Sequence[Block],
    host: Host,
    command_type: str,
    now: float,
    groups: Mapping[str, Selector] = NO_GROUPS,
) -> Refused | Held | None:
    """What the blocks say about a command that has not started."""
    about = by_host(
        [block for block in blocks if matches_type(block, command_type)], [host], groups
    )
    return verdict_of(about[host.id], now)


def verdict_of(blocks: Sequence[Block], now: float) -> Refused | Held | None:
    """What blocks about one command on one host say. Of several, the one that ends last."""
    found = [block for block in blocks if is_in_force(block, now)]
    refusing = [block for block in found if block.effect is BlockEffect.REFUSE]
    if not found:
        return None
    last = max(refusing or found, key=lambda block: (_end(block, now), block.id))
    kind = Refused if refusing else Held
    return kind(last, ends_at(last, now))


def _end(block: Block, now: float) -> float:
    until = ends_at(block, now)
    return math.inf if until is None else until


def after_lift(
    block: Block, *, others: Refused | Held | None, not_after: float, now: float
) -> LiftAction:
    """What becomes of an execution that the block held. `others` is the verdict without it."""
    if block.on_lift is OnLift.DROP:
        return LiftAction.DROP
    if now >= not_after:
        return LiftAction.EXPIRE
    if others is not None:
        return LiftAction.REFUSE if isinstance(others, Refused) else LiftAction.HOLD
    reapproves = block.on_lift is OnLift.REAPPROVE
    return LiftAction.REAPPROVE if reapproves else LiftAction.REQUEUE


# -- texts -------------------------------------------------------------------------------------------


def block_text(block: Block, now: float) -> str:
    """The block, its owner and its end, in one line."""
    until = ends_at(block, now) if is_in_force(block, now) else None
    end = "until it is lifted" if until is None else f"until {time_text(until)}"
    return f"block {block.id} of {block.owner}: {block.reason}, {end}"


def next_windows(block: Block, now: float) -> list[float]:
    """When the next windows of a block begin that is not over by then."""
    if block.window_json is None or is_over(block, now):
        return []
    end = math.inf if block.expires_at is None else block.expires_at
    found = windows.next_starts(windows.read_window(block.window_json), now)
    return [start for start in found if start < end]


def warnings(block: Block, command_types: Collection[str], now: float) -> list[str]:
    """Why a block may not do what was meant."""
    found = []
    if not any(matches_type(block, name) for name in command_types):
        known = ", ".join(sorted(command_types))
        found.append(f"no command type matches '{block.command_type}' now: {known}")
    if block.window_json is not None:
        window = windows.read_window(block.window_json)
        if windows.never_closes(window, now):
            found.append(
                "each window begins before the one before it ends: the block always counts"
            )
    return found


class BlockExplanation(msgspec.Struct, frozen=True):
    """Why a block counts for a host, or when it will."""

    block_id: str
    in_force: bool
    text: str


def explain(
    blocks: Sequence[Block],
    host: Host,
    command_type: str,
    now: float,
    groups: Mapping[str, Selector] = NO_GROUPS,
) -> list[BlockExplanation]:
    """Every block about this command on this host, those in force first."""
    found = []
    for block in blocks:
        if is_over(block, now) or not matches(block, host, command_type, groups):
            continue
        counts = is_in_force(block, now)
        text = block_text(block, now)
        if not counts:
            opens = changes_at(block, now)
            when = "nor later" if opens is None else f"but from {time_text(opens)}"
            text = f"block {block.id} of {block.owner}: {block.reason}, not in force now, {when}"
        found.append(BlockExplanation(block.id, counts, f"{text} ({block.effect})"))
    return sorted(found, key=lambda explanation: (not explanation.in_force, explanation.block_id))


def check_block(block: Block, now: float) -> None:
    """InvalidInput names what is wrong with a new or changed block."""
    if (block.host_id is None) == (block.selector is None):
        raise InvalidInput("a block is for a host or for a selector: give one of them")
    if block.selector is not None:
        parse(block.selector)
    check_name("command_type", block.command_type)
    check_name("owner", block.owner)
    if not check_text("reason", block.reason).strip():
        raise InvalidInput("reason is empty: say why the hosts are blocked")
    if block.expires_at is not None and block.expires_at <= now:
        raise InvalidInput("expires_at has passed: the block would never count")
    if block.window_json is not None:
        try:
            read = windows.read_window(block.window_json)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"window is wrong: {error}") from None
        windows.check_window(read)
