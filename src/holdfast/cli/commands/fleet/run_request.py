"""The request for a job from the options of `holdfast run`.

Promises: options change only what they name. Without any option of the rollout every host is run in one wave.
`--waves` brings the budgets of a careful rollout, and so does any `--max-...`; a window or a rate alone does
not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.commands.fleet.job_change import amount, budgets, per_second
from holdfast.cli.options import Flag
from holdfast.cli.problem import Usage
from holdfast.core.fleet.commands.command_type import OnRestart
from holdfast.core.fleet.rollout.policy import BUDGETS, GateMode, HaltMode, HostOrder


@Parameter(name="*")
@dataclass(frozen=True)
class Rollout:
    """Which hosts go first, how many at a time, and what halts the job."""

    waves: Annotated[
        str | None, Parameter(help="Sizes of waves, e.g. 1,5%,rest; default: one wave.")
    ] = None
    max_in_flight: Annotated[
        str | None, Parameter(help="Hosts at a time: a number, or a share such as 5%.")
    ] = None
    rate: Annotated[str | None, Parameter(help="Hosts that start in a second.")] = None
    max_fail: Annotated[
        str | None, Parameter(help="Hosts that may fail: a number, 2%, or none (no limit).")
    ] = None
    max_timeout: Annotated[str | None, Parameter(help="Hosts that may time out.")] = None
    max_lost: Annotated[
        str | None, Parameter(help="Hosts that may stop answering after their go.")
    ] = None
    max_unreachable: Annotated[str | None, Parameter(help="Hosts that may never start.")] = None
    max_canary: Annotated[
        str | None, Parameter(help="Hosts of the first wave that may not succeed.")
    ] = None
    consecutive: Annotated[
        int | None, Parameter(help="This many bad ends in a row halt the job.")
    ] = None
    on_breach: Annotated[HaltMode | None, Parameter(help="What a halt does to hosts that run.")] = (
        None
    )
    bake: Annotated[str | None, Parameter(help="Wait between waves, e.g. 10m.")] = None
    gate: Annotated[GateMode | None, Parameter(help="ask: a person opens each further wave.")] = (
        None
    )
    stragglers: Annotated[
        str | None, Parameter(help="How long a wave waits for hosts that do not answer.")
    ] = None
    order: Annotated[HostOrder | None, Parameter(help="The order of the hosts.")] = None
    order_seed: Annotated[int | None, Parameter(help="Repeats a random order.")] = None

    def request(self) -> dict[str, Any] | None:
        """The `rollout` of the request. None: none of the options was given."""
        given = _fields(
            max_in_flight=None if self.max_in_flight is None else amount(self.max_in_flight),
            rate_per_second=None if self.rate is None else per_second(self.rate),
            consecutive=self.consecutive,
            on_breach=self.on_breach,
            bake_seconds=_seconds(self.bake, "--bake"),
            gate=self.gate,
            straggler_seconds=_seconds(self.stragglers, "--stragglers"),
            order=self.order,
            seed=self.order_seed,
        )
        budget = budgets(self.max_fail, self.max_timeout, self.max_lost, self.max_unreachable)
        if self.max_canary is not None:
            given["canary_budget"] = None if self.max_canary == "none" else amount(self.max_canary)
        if self.waves is not None:
            given["waves"] = [amount(size) for size in values.names(self.waves)]
            if not given["waves"]:
                raise Usage("--waves is empty: give sizes such as 1,5%,rest")
        if self.waves is None and not budget and not given:
            return None
        if self.waves is None:
            given["waves"] = []
            given.setdefault("order", HostOrder.NAME)
            if not budget:
                budget = dict.fromkeys((name.value for name in BUDGETS), None)
        return given | {"budget": budget}


@Parameter(name="*")
@dataclass(frozen=True)
class What:
    """What is run."""

    type: Annotated[str, Parameter(help="The type of the command.")] = "exec"
    timeout: Annotated[
        str | None, Parameter(help="How long the command may run on a host, e.g. 30s.")
    ] = None
    not_after: Annotated[
        str | None, Parameter(help="How long hosts may wait for their start, e.g. 1h.")
    ] = None
    idempotent: Annotated[
        Flag, Parameter(help="It may run twice: failed and lost hosts are retried.")
    ] = False
    retries: Annotated[
        int | None, Parameter(help="How often an idempotent command is retried.")
    ] = None
    on_restart: Annotated[
        OnRestart | None, Parameter(help="What an agent does with it after a reboot.")
    ] = None
    env: Annotated[
        list[str] | None, Parameter(negative="", help="NAME=VALUE; may be given several times.")
    ] = None
    arg: Annotated[
        list[str] | None, Parameter(negative="", help="NAME=VALUE for the type's template.")
    ] = None
    secret: Annotated[
        list[str] | None, Parameter(negative="", help="VARIABLE=NAME of a secret of the server.")
    ] = None
    priority: Annotated[str | None, Parameter(help="critical, high, normal or low.")] = None
    metadata: Annotated[
        list[str] | None, Parameter(negative="", help="NAME=VALUE that you want to see again.")
    ] = None

    def request(self) -> dict[str, Any]:
        """Fields of the request."""
        retry = None if self.retries is None else {"max_retries": self.retries}
        return _fields(
            command_type=self.type,
            exec_timeout_seconds=_seconds(self.timeout, "--timeout"),
            not_after_seconds=_seconds(self.not_after, "--not-after"),
            idempotent=self.idempotent or None,
            retry=retry,
            on_restart=self.on_restart,
            env=_pairs(self.env, "--env"),
            args=values.payload(self.arg, None) if self.arg else None,
            secrets=_secrets(self.secret),
            priority=self.priority,
            metadata=values.payload(self.metadata, None) if self.metadata else None,
        )


def _fields(**given: object) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _seconds(text: str | None, option: str) -> float | None:
    return None if text is None else values.seconds(text, option)


def _pairs(texts: list[str] | None, option: str) -> dict[str, str] | None:
    if texts is None:
        return None
    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        if not sign or not name:
            raise Usage(f"{option} is '{name}': write NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _secrets(texts: list[str] | None) -> dict[str, Any] | None:
    found = _pairs(texts, "--secret")
    return None if found is None else {name: {"name": value} for name, value in found.items()}
