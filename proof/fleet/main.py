"""Command line: ``python -m proof fleet [--seed N] [--seeds 200] [--agents 1000]``.

Each seed is a run of the simulator: servers, 1,000 hosts with agents, operators. 10 % of the messages are
lost each way, they take up to 500 ms, 5 % arrive twice, and 2 % of the executions lose their agent. The first
job is on all hosts. A line for each seed; exit code 1 if a law was broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Final

from holdfast.sim.campaign import Options, Verdict, campaign
from holdfast.sim.scenarios import changes_of

HOURS: Final = 0.025
"""The fault phase: 90 s, in which the first job runs."""
COUNTED: Final = ("executions", "agent runs", "agent runs under faults", "agent crashes")
QUESTIONS: Final = {
    "double starts": ("a command starts once", "a token starts once"),
    "lost results": ("no result is lost",),
    "wrong statuses": ("an execution has one true outcome", "a shown status never goes back"),
    "windows exceeded": ("a rollout keeps its window",),
    "starts without approval": ("nothing starts without its approval",),
    "starts on blocked hosts": ("a blocked host gets nothing",),
    "starts after a halt": ("a halt is final",),
}
"""What the laws answer. All other laws are judged too."""


def options(agents: int) -> Options:
    """The plan of every seed."""
    bad_network = (
        *(("agent_loss", "0.1"), ("agent_jitter_seconds", "0.5"), ("agent_duplicate", "0.05")),
        ("agent_crash", "0.02"),
    )
    size = (("agents", str(agents)), ("fleet_whole", "true"), ("fleet_act_seconds", "20"))
    return Options(
        hours=HOURS, recover_hours=0.5, changes=(*changes_of("fleet"), *bad_network, *size)
    )


class Tally:
    """Counts the verdicts and prints a line for each."""

    def __init__(self) -> None:
        self.met: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.bad: list[int] = []
        self.seeds = 0
        self._since = time.process_time()

    def add(self, verdict: Verdict) -> None:
        self.seeds += 1
        now = time.process_time()
        took, self._since = now - self._since, now
        for name in COUNTED:
            self.met[name] += verdict.met.get(name, 0)
        for question, laws in QUESTIONS.items():
            self.answers[question] += sum(len(verdict.broken.get(law, ())) for law in laws)
        counts = ", ".join(f"{verdict.met.get(name, 0)} {name}" for name in COUNTED)
        _say(
            f"seed {verdict.seed}: {'broken' if verdict.broken else 'clean'}, {took:.1f} s, {counts}"
        )
        if verdict.broken:
            self.bad.append(verdict.seed)
            for law, texts in verdict.broken.items():
                _say(f"  {law}: {texts[0]} (and {len(texts) - 1} more)")

    def summary(self) -> str:
        counts = ", ".join(f"{self.met[name]:,} {name}" for name in COUNTED)
        answers = ", ".join(f"{self.answers[question]} {question}" for question in QUESTIONS)
        return f"{self.seeds - len(self.bad)} of {self.seeds} seeds clean: {answers}\n{counts}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m proof fleet", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--agents", type=int, default=1_000, help="hosts of each seed")
    args = parser.parse_args(argv)
    tally = Tally()
    campaign(range(args.seed, args.seed + args.seeds), options(args.agents), on_verdict=tally.add)
    _say(tally.summary())
    return int(bool(tally.bad))
