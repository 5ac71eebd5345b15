"""How a job spreads over its hosts: the policy, the sizes of its waves and the order of its hosts.

Amounts are numbers of hosts, or percentages of all pinned hosts. Promises: sizes round up to at least 1,
budgets round down; the waves of a policy have all hosts, each once; the order of the hosts follows from the
seed alone, and the place of a host is computed without a list. Never: random numbers, I/O.
"""

from __future__ import annotations

import hashlib
import math
import re
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.check import (
    SECONDS_MAX,
    check_choice,
    check_number,
    check_positive,
    check_whole,
    shown,
)
from holdfast.errors import InvalidInput

Amount: TypeAlias = int | str
"""A number of hosts (3 or "3"), or a percentage ("5%")."""
HOSTS_MAX: Final = 100_000
"""Targets of one job."""
WAVES_MAX: Final = 20
RATE_MAX: Final = 10_000.0
REST: Final = "rest"
"""As the last wave: all hosts that are left."""
_AMOUNT: Final = re.compile(r"(\d{1,6}(?:\.\d{1,4})?)(%?)")


class HostOrder(StrEnum):
    """In which order hosts are admitted."""

    RANDOM = "random"
    """From a host that the seed gives, in steps that spread every wave over the sorted names."""
    NAME = "name"


class GateMode(StrEnum):
    """What opens the next wave."""

    AUTO = "auto"
    ASK = "ask"
    """A person: see `rollout.promote`."""


class HaltMode(StrEnum):
    """What a halt does to hosts that run."""

    DRAIN = "drain"
    """They finish. No host is admitted any more."""
    ABORT = "abort"
    """They are aborted. No host is admitted any more."""
    PAUSE = "pause"
    """They finish. No host is admitted until a person resumes the job."""


class BudgetName(StrEnum):
    """What a job may have how much of, before it halts."""

    FAILED = "failed"
    TIMEOUT = "timeout"
    LOST = "lost"
    UNREACHABLE = "unreachable"


BUDGETS: Final[dict[BudgetName, Amount]] = {
    BudgetName.FAILED: "0",
    BudgetName.TIMEOUT: "2%",
    BudgetName.LOST: "1%",
    BudgetName.UNREACHABLE: "10%",
}
WAVES: Final[tuple[Amount, ...]] = (1, "5%", REST)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is rolled out. The defaults are those of a request that has a `rollout`."""

    waves: tuple[Amount, ...] = WAVES
    """Sizes, in order. Empty: one wave. Hosts beyond the last size form another wave."""
    max_in_flight: Amount = 50
    order: HostOrder = HostOrder.RANDOM
    seed: int = 0
    bake_seconds: float = 0.0
    """The pause between the end of a wave and the next one."""
    gate: GateMode = GateMode.AUTO
    straggler_seconds: float = 300.0
    """How long a wave waits for its unreachable hosts after all others have ended."""
    budgets: dict[BudgetName, Amount] = msgspec.field(default_factory=lambda: dict(BUDGETS))
    """A name that is missing has no limit."""
    canary_budget: Amount | None = 0
    """Failed, timed out and lost hosts of the first of several waves. None: no separate limit."""
    consecutive: int | None = None
    """This number of hosts in a row that failed, timed out or were lost halts the job. None: no limit."""
    on_breach: HaltMode = HaltMode.DRAIN
    rate_per_second: float | None = None
    """Hosts that are admitted in a second. None: as many as the window has room for."""

    def __post_init__(self) -> None:
        check_policy(self)


class RolloutRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `rollout` of a request. What is missing has the default of `Policy`."""

    waves: tuple[Amount, ...] | msgspec.UnsetType = msgspec.UNSET
    max_in_flight: Amount | msgspec.UnsetType = msgspec.UNSET
    order: HostOrder | msgspec.UnsetType = msgspec.UNSET
    seed: int | msgspec.UnsetType = msgspec.UNSET
    bake_seconds: float | msgspec.UnsetType = msgspec.UNSET
    gate: GateMode | msgspec.UnsetType = msgspec.UNSET
    straggler_seconds: float | msgspec.UnsetType = msgspec.UNSET
    budget: dict[BudgetName, Amount | None] = {}
    """Changes of the default budgets. None: no limit."""
    canary_budget: Amount | msgspec.UnsetType | None = msgspec.UNSET
    consecutive: int | msgspec.UnsetType | None = msgspec.UNSET
    on_breach: HaltMode | msgspec.UnsetType = msgspec.UNSET
    rate_per_second: float | msgspec.UnsetType | None = msgspec.UNSET


def policy_of(request: RolloutRequest | None, *, seed: int = 0, max_in_flight: int = 50) -> Policy:
    """The checked policy of a job. `seed` and `max_in_flight` count where the request has none."""
    if request is None:
        return msgspec.structs.replace(PLAIN, seed=seed, max_in_flight=max_in_flight)
    wanted = BUDGETS | request.budget
    budgets = {name: amount for name, amount in wanted.items() if amount is not None}
    values: dict[str, Any] = {"seed": seed, "max_in_flight": max_in_flight, "budgets": budgets}
    fields = msgspec.structs.asdict(request)
    del fields["budget"]
    values |= {name: value for name, value in fields.items() if value is not msgspec.UNSET}
    return Policy(**values)


def check_policy(policy: Policy) -> None:
    """InvalidInput names the field that is wrong."""
    if len(policy.waves) > WAVES_MAX:
        raise InvalidInput(f"waves has {len(policy.waves)} sizes: give at most {WAVES_MAX}")
    for at, size in enumerate(policy.waves):
        if size != REST:
            _check_size(f"waves[{at}]", size)
        elif at < len(policy.waves) - 1:
            raise InvalidInput(f"waves[{at}] is 'rest': only the last wave can be")
    _check_size("max_in_flight", policy.max_in_flight)
    check_choice("order", policy.order, HostOrder)
    check_choice("gate", policy.gate, GateMode)
    check_choice("on_breach", policy.on_breach, HaltMode)
    check_number("bake_seconds", policy.bake_seconds)
    check_number("straggler_seconds", policy.straggler_seconds, most=SECONDS_MAX)
    for name, amount in policy.budgets.items():
        budget_of(amount, 1, f"budget.{check_choice('budget', name, BudgetName)}")
    if policy.canary_budget is not None:
        budget_of(policy.canary_budget, 1, "canary_budget")
    if policy.consecutive is not None:
        check_whole("consecutive", policy.consecutive, least=1, most=HOSTS_MAX)
    if policy.rate_per_second is not None:
        check_positive("rate_per_second", policy.rate_per_second, most=RATE_MAX)


def _check_size(field: str, size: Amount) -> None:
    if _share(size, field, HOSTS_MAX) == 0:
        raise InvalidInput(f"{field} is {shown(size)}: give at least 1 or a percentage above 0")


def _share(amount: Amount, field: str, hosts: int) -> Fraction:
    """The amount in hosts, exactly."""
    match = None
    if isinstance(amount, int | str) and not isinstance(amount, bool):
        match = _AMOUNT.fullmatch(str(amount))
    number = Fraction(match[1]) if match else Fraction(-1)
    is_percent = bool(match and match[2])
    is_whole = number.denominator == 1
    if number < 0 or (is_percent and number > 100) or not (is_percent or is_whole):
        raise InvalidInput(
            f"{field} is {shown(amount)}: give a number of hosts, or a percentage such as '5%'"
        )
    return number * hosts / 100 if is_percent else number


def size_of(amount: Amount, hosts: int, field: str = "size") -> int:
    """A size in hosts: rounded up, at least 1."""
    return max(1, math.ceil(_share(amount, field, hosts)))


def budget_of(amount: Amount, hosts: int, field: str = "budget") -> int:
    """A budget in hosts: rounded down."""
    return math.floor(_share(amount, field, hosts))


def budgets_of(policy: Policy, hosts: int) -> dict[BudgetName, int]:
    """The limits of a job with this number of hosts."""
    return {name: budget_of(amount, hosts) for name, amount in policy.budgets.items()}


def wave_sizes(policy: Policy, hosts: int) -> tuple[int, ...]:
    """The sizes of the waves. Their sum is the number of hosts; a size that is too large is cut, and waves
    for which no host is left are none."""
    return _wave_sizes(policy.waves, hosts)


@lru_cache(maxsize=1_000)
def _wave_sizes(waves: tuple[Amount, ...], hosts: int) -> tuple[int, ...]:
    left = hosts
    sizes: list[int] = []
    for amount in (*waves, REST):
        size = left if amount == REST else min(left, size_of(amount, hosts))
        if size > 0:
            sizes.append(size)
        left -= size
    return tuple(sizes)


def nth_at(policy: Policy, hosts: int, place: int) -> int:
    """The host at this place of the order: its `nth` in the sorted targets."""
    if policy.order is HostOrder.NAME:
        return place
    return (_offset(policy.seed, hosts) + place * _stride(hosts)) % hosts


def place_of(policy: Policy, hosts: int, nth: int) -> int:
    """The place of a host in the order."""
    if policy.order is HostOrder.NAME:
        return nth
    return (nth - _offset(policy.seed, hosts)) * _inverse(hosts) % hosts


def wave_of(policy: Policy, hosts: int, nth: int) -> int:
    """The wave that a host belongs to, from 1."""
    place = place_of(policy, hosts, nth)
    for number, size in enumerate(wave_sizes(policy, hosts), start=1):
        if place < size:
            return number
        place -= size
    raise InvalidInput(f"nth is {nth}: the job has {hosts} hosts")


@lru_cache(maxsize=1_000)
def _offset(seed: int, hosts: int) -> int:
    digest = hashlib.blake2b(f"rollout:{seed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % hosts


@lru_cache(maxsize=1_000)
def _stride(hosts: int) -> int:
    """About the golden section of the hosts, without a common divisor: the steps visit every host once, and
    the hosts of any run of steps are spread evenly."""
    golden = round(hosts * (math.sqrt(5) - 1) / 2)
    around = (golden + sign * step for step in range(hosts + 1) for sign in (1, -1))
    return next(stride for stride in around if stride > 0 and math.gcd(stride, hosts) == 1)


@lru_cache(maxsize=1_000)
def _inverse(hosts: int) -> int:
    return pow(_stride(hosts), -1, hosts)


def loosened(approved: Policy, wanted: Policy, hosts: int) -> tuple[str, ...]:
    """The fields in which a changed policy allows more than the approved one. Empty: the change needs no new
    approval."""
    fields: list[str] = []
    if size_of(wanted.max_in_flight, hosts) > size_of(approved.max_in_flight, hosts):
        fields.append("max_in_flight")
    if _is_above(wanted.rate_per_second, approved.rate_per_second):
        fields.append("rate_per_second")
    before, after = budgets_of(approved, hosts), budgets_of(wanted, hosts)
    fields += [
        f"budget.{name}" for name in BudgetName if _is_above(after.get(name), before.get(name))
    ]
    if _is_above(wanted.consecutive, approved.consecutive):
        fields.append("consecutive")
    canaries = [
        None if policy.canary_budget is None else budget_of(policy.canary_budget, hosts)
        for policy in (wanted, approved)
    ]
    if _is_above(*canaries):
        fields.append("canary_budget")
    fixed = ("waves", "order", "seed", "bake_seconds", "gate", "straggler_seconds", "on_breach")
    fields += [name for name in fixed if getattr(wanted, name) != getattr(approved, name)]
    return tuple(fields)


def _is_above(wanted: float | None, approved: float | None) -> bool:
    """None is no limit."""
    return approved is not None and (wanted is None or wanted > approved)


PLAIN: Final = Policy(waves=(), order=HostOrder.NAME, budgets={}, canary_budget=None)
"""The policy of a request without a `rollout`: one wave, no budgets, every host is run."""
