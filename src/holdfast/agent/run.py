"""One run of an agent: an offer under its token, and how far it has got."""

from __future__ import annotations

import signal
from typing import Final

from holdfast.agent.ports import ExitRecord, Sight, StreamEnd, Work
from holdfast.core.fleet.agents.journal import ProcessMark, Step
from holdfast.core.fleet.agents.wire import AgentOffer, AgentResult, TokenRef, reason_of

SHELL: Final = ("/bin/sh", "-c")
EXITED: Final = "exited"
UNKEPT: Final = "its supervisor was killed, so the agent ended it after its time limit"


class Run:
    """The state of one token. The journal has all of it that must survive."""

    __slots__ = (
        "aborts",
        "inline",
        "is_later",
        "is_muted",
        "is_overdue",
        "is_probe",
        "offer",
        "process",
        "result",
        "step",
    )

    def __init__(self, offer: AgentOffer, step: Step) -> None:
        self.offer = offer
        self.step = step
        self.process: ProcessMark | None = None
        self.is_probe = False
        self.result: AgentResult | None = None
        self.is_later = False
        """Whether the result says that the offer may come again, but not at once."""
        self.is_muted = False
        """Whether the server refuses to hear that it runs."""
        self.is_overdue = False
        """Whether the agent itself has stopped it at its time limit."""
        self.aborts: list[str] = []
        """Commands of the server that ask for the end."""
        self.inline: dict[str, bytes] = {}
        """Output of a builtin."""

    @property
    def token(self) -> int:
        return self.offer.token

    @property
    def execution(self) -> str:
        return self.offer.execution

    @property
    def is_started(self) -> bool:
        """Whether a command may run."""
        return self.step is Step.STARTED and self.result is None

    @property
    def name(self) -> str:
        """The name of its present process."""
        return f"{self.token}-probe" if self.is_probe else str(self.token)

    @property
    def phase(self) -> str:
        return self.step.name.lower() if self.step < Step.STARTED else "started"

    @property
    def secrets(self) -> list[str]:
        """Values that its output must not have."""
        env = self.offer.env
        return [env[name] for name in self.offer.secret_env if name in env]

    def work(self, env: dict[str, str], argv: tuple[str, ...] | None = None) -> Work:
        """The command. `argv`: other words than those of the offer."""
        offer = self.offer
        if argv is None:
            argv = tuple(offer.probe_argv if self.is_probe else offer.argv)
            if offer.kind == "shell" and not self.is_probe:
                argv = (*SHELL, *argv)
        return Work(
            run=self.name,
            argv=argv,
            env={**offer.env, **env},
            run_as=offer.run_as,
            timeout_seconds=offer.exec_timeout_seconds,
            grace_seconds=offer.grace_seconds,
            output_bytes=offer.output_bytes,
        )


def result_of(
    offer: AgentOffer, state: str, reason: str = "", *, is_unheard: bool = False
) -> AgentResult:
    """A result without an end of a process. A token has one result, so its id is made of the token."""
    return AgentResult(
        id=f"r-{offer.token}",
        execution=offer.execution,
        token=offer.token,
        state=state,
        reason=reason_of(reason),
        is_unheard=is_unheard,
    )


def exited(run: Run, ended: ExitRecord) -> AgentResult:
    """The result of a process that has ended. A probe that was not run decides nothing: the command was."""
    if run.is_probe and ended.state != EXITED:
        return result_of(run.offer, "unknown", f"its probe was not run: {ended.reason}")
    return AgentResult(
        id=f"r-{run.token}",
        execution=run.execution,
        token=run.token,
        state=ended.state,
        exit_code=ended.exit_code,
        signal=ended.signal,
        timed_out=ended.timed_out,
        killed=ended.killed,
        seconds=ended.seconds,
        sizes={} if run.is_probe else {name: end.size for name, end in ended.streams.items()},
        sha256={} if run.is_probe else {name: end.sha256 for name, end in ended.streams.items()},
        gaps={}
        if run.is_probe
        else {name: [end.gap] for name, end in ended.streams.items() if end.gap[1]},
        reason="decided by the probe" if run.is_probe else reason_of(ended.reason),
    )


def unknown_offer(ref: TokenRef) -> AgentOffer:
    """What stands for the offer of a token of which nothing else is known."""
    return AgentOffer(
        execution=ref.execution, fence=0, token=ref.token, job="", command_type="", kind=""
    )


def not_begun(run: Run, state: str, error: Exception) -> AgentResult:
    """A process that could not be made. Without its probe, an interrupted run stays unknown."""
    return result_of(run.offer, "unknown" if run.is_probe else state, str(error))


def is_overdue(run: Run, sight: Sight) -> bool:
    """Whether a command whose supervisor is gone has used up its time."""
    offer, seconds = run.offer, sight.unkept_seconds
    return seconds is not None and seconds > offer.exec_timeout_seconds + offer.grace_seconds


def timed_out_unkept(sight: Sight) -> ExitRecord:
    """The end of a command that the agent stopped at its time limit."""
    return ExitRecord(
        state="exited",
        signal=signal.SIGKILL,
        timed_out=True,
        reason=UNKEPT,
        streams={name: StreamEnd(size) for name, size in sight.sizes.items()},
    )
