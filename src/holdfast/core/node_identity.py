"""The identity of a node that registers: incarnations, states, and copies that share one identity.

Each start of a node is an incarnation. A start fences the earlier ones: their claims end.
Promises: a repeated request of one start gets the same incarnation. Two processes that use one identity in
turn differ from one process that restarts: a restart never returns to an earlier boot id.
Never: makes credentials or ids.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

HEARTBEAT_SECONDS: Final = 20.0
"""How often a registered node says that it lives."""
REPEAT_SECONDS: Final = 60.0
"""How long a repeated registration with one boot id is the same start."""
CLONE_SECONDS: Final = 60.0
CLONE_CHANGES: Final = 3
"""More changes of the boot id within `CLONE_SECONDS`, with returns to earlier ones, are two processes."""
CLONE_RETURNS: Final = 2
"""Returns to one earlier boot id that are two processes. A late copy of an old request is one."""
CLONE_RETURNS_ALL: Final = 3
"""Returns to any earlier boot ids that are several processes."""
BOOTS_KEPT: Final = 16
"""Starts that are compared. Up to 12 processes that take turns come back often enough among them."""
OLD_CREDENTIAL_SECONDS: Final = 600.0
"""How long the credential before a rotation is accepted."""


class NodeKind(StrEnum):
    WORKER = "worker"
    PLUGIN = "plugin"
    AGENT = "agent"
    GATEWAY = "gateway"


class NodeState(StrEnum):
    LIVE = "live"
    DRAINING = "draining"
    """It gets no new claims and has to end its runs."""
    CORDONED = "cordoned"
    """It gets no new claims."""
    QUARANTINED = "quarantined"
    """It may do nothing until an operator ends the quarantine."""
    REVOKED = "revoked"
    """It may do nothing, and has no credential."""


SHUT_OUT: Final = frozenset({NodeState.QUARANTINED, NodeState.REVOKED})


class Boot(msgspec.Struct, frozen=True, array_like=True):
    """A start of the node, as it named it."""

    boot_id: str
    at: float
    session: str = ""
    """The process, if it named itself: several of them may run in one boot of a machine."""


class NodeIdentity(msgspec.Struct, frozen=True):
    """What the store has of a registered node, as far as a start needs it."""

    incarnation: int
    state: NodeState
    boots: tuple[Boot, ...] = ()
    """The latest changes of the boot id, oldest first. The last one is the current boot."""
    started_at: float = 0.0
    """The start of the current incarnation."""
    issued_at: float | None = None
    """When the credential was made."""

    @property
    def boot_id(self) -> str | None:
        return self.boots[-1].boot_id if self.boots else None


class Started(msgspec.Struct, frozen=True):
    """A new incarnation. With `needs_credential` a new credential is made and shown once."""

    identity: NodeIdentity
    needs_credential: bool


class Repeated(msgspec.Struct, frozen=True):
    """The start was answered before. A credential that the first answer carried may be lost, so it is made
    again. The first one stays valid: the node may have it, and this request may be a late one."""

    identity: NodeIdentity
    needs_credential: bool


class Cloned(msgspec.Struct, frozen=True):
    """Two processes use the identity. It is quarantined."""

    identity: NodeIdentity


class ShutOut(msgspec.Struct, frozen=True):
    """The state of the node does not allow a start."""

    state: NodeState


class Taken(msgspec.Struct, frozen=True):
    """A join token asks for a node that exists. It makes new nodes and never speaks for another one."""


Start: TypeAlias = Started | Repeated | Cloned | ShutOut | Taken


def start(
    identity: NodeIdentity | None,
    *,
    boot_id: str | None,
    now: float,
    session: str = "",
    rotate: bool = False,
    is_join: bool = False,
    is_unused: bool = False,
    repeats: bool = True,
    readmits: bool = False,
) -> Start:
    """Judges a registration. `identity` is None for a node that is not known. `session`: the process, which
    another incarnation has fenced. `is_join`: it is made by a join
    token. `is_unused`: no credential of the node was ever used, so the answers that carried them may be
    lost. `repeats`: whether a request with the current boot id may be a repeat; it is not for a boot of a
    machine, in which a process starts again and again. `readmits`: what the node stands for was removed and
    added again, so a join token starts it once more."""
    if identity is None:
        first: tuple[Boot, ...] = () if boot_id is None else (Boot(boot_id, now),)
        return Started(NodeIdentity(1, NodeState.LIVE, first, now, now), needs_credential=True)
    if readmits and is_join:
        first = () if boot_id is None else (Boot(boot_id, now),)
        again = NodeIdentity(identity.incarnation + 1, NodeState.LIVE, first, now, now)
        return Started(again, needs_credential=True)
    if identity.state in SHUT_OUT:
        return ShutOut(identity.state)
    # The boot id is known to the process that chose it, so no time bounds the repeat of its request.
    is_unanswered = is_unused and boot_id is not None and boot_id == identity.boot_id
    if is_join:
        return Repeated(identity, needs_credential=True) if is_unanswered else Taken()
    if repeats and _is_repeat(identity, boot_id, now):
        was_issued = identity.issued_at is not None and identity.issued_at >= identity.started_at
        return Repeated(identity, needs_credential=rotate or was_issued)
    boots = _later(identity.boots, boot_id, session, now)
    if _are_two(boots):
        return Cloned(replace(identity, state=NodeState.QUARANTINED, boots=boots))
    needs_credential = rotate or is_unanswered or identity.issued_at is None
    started = replace(
        identity,
        incarnation=identity.incarnation + 1,
        boots=boots,
        started_at=now,
        issued_at=now if needs_credential else identity.issued_at,
    )
    return Started(started, needs_credential)


def may_claim(state: NodeState) -> bool:
    return state is NodeState.LIVE


def skew_ms(sent_at: float | None, now: float) -> int | None:
    """How far the clock of a node is ahead, by the time that its message names. It includes the way of the
    message, and decides nothing. None: the message names no time."""
    return None if sent_at is None else round((sent_at - now) * 1000)


def _is_repeat(identity: NodeIdentity, boot_id: str | None, now: float) -> bool:
    is_current = boot_id is not None and boot_id == identity.boot_id
    return is_current and now - identity.started_at < REPEAT_SECONDS


def _later(
    boots: tuple[Boot, ...], boot_id: str | None, session: str, now: float
) -> tuple[Boot, ...]:
    """The changes of boot and process that are recent, with the new one."""
    if boot_id is None:
        return boots
    recent = tuple(boot for boot in boots if now - boot.at < CLONE_SECONDS)
    # A boot that was followed by another one does not return, whatever its process: no name excuses it.
    is_past = boot_id in list(dict.fromkeys(boot.boot_id for boot in recent))[:-1]
    named = "" if is_past else session
    last = recent[-1] if recent else None
    if last is not None and last.boot_id == boot_id and named in ("", last.session):
        return recent
    return (*recent, Boot(boot_id, now, named))[-BOOTS_KEPT:]


def _are_two(boots: tuple[Boot, ...]) -> bool:
    """Whether the boot id changed often and earlier ones keep coming back. A process that dies at each start
    has a new boot id each time; a late copy of one of its requests names an earlier one, and its next start
    the newest."""
    names = [(boot.boot_id, boot.session) for boot in boots]
    newest = list(dict.fromkeys(names))[-1:]
    starts = Counter(name for name in names if name not in newest)
    returns = starts.total() - len(starts)
    has_turns = returns >= CLONE_RETURNS_ALL or max(starts.values(), default=0) > CLONE_RETURNS
    return len(names) - 1 > CLONE_CHANGES and has_turns
