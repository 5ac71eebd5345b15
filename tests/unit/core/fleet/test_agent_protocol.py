"""The agent protocol over a network that loses, repeats, reorders and delays, with crashes on both sides.

Whatever happens: a token starts once, a host runs one command, no result is lost, no ended status changes."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import example, given, settings, strategies as st

from holdfast.core.fleet.agents.wire import AgentSync, AgentSyncAnswer
from holdfast.core.task import ENDED
from tests.unit.core.fleet.agent_model import (
    COMMAND,
    IDEMPOTENT,
    HonestAgent,
    Server,
    make_job,
    make_run,
)

HARMLESS = (
    *("round", "round", "round", "round", "half-round", "half-round"),
    *("sync", "deliver", "deliver", "deliver-again", "answer", "answer", "answer-again"),
    *("lose-message", "lose-answer", "exit", "exit", "fail", "crash", "wait", "wait-long", "sweep"),
)
"""What an honest agent and a bad network do."""
OPERATORS = ("abort", "pause", "resume", "revoke", "boot", "new-disk", "wait-very-long")


class World:
    """One host, its agent, the server, and what is on the way between them."""

    def __init__(self, *, idempotent: bool) -> None:
        command = IDEMPOTENT if idempotent else COMMAND
        job = make_job()
        attempts = 3 if idempotent else 1
        self.server = Server([make_run(f"e{n}", job, command, attempts=attempts) for n in range(3)])
        self.agent = HonestAgent()
        self.messages: list[AgentSync] = []
        self.answers: list[tuple[int, AgentSyncAnswer | None]] = []
        self.was_revoked = False
        self.is_idempotent = idempotent
        self._names = 0

    def act(self, action: str, nth: int) -> None:  # noqa: C901 -- one case for each action
        server, agent = self.server, self.agent
        match action:
            case "round":
                message = agent.message()
                self.hear(message.incarnation, server.sync(message))
            case "half-round":
                message = agent.message()
                self.answers.append((message.incarnation, server.sync(message)))
                self.messages.append(message)
            case "sync":
                self.messages.append(agent.message())
            case "deliver" | "deliver-again" if self.messages:
                place = nth % len(self.messages)
                message = self.messages[place]
                if action == "deliver":
                    del self.messages[place]
                self.answers.append((message.incarnation, server.sync(message)))
            case "answer" | "answer-again" if self.answers:
                place = nth % len(self.answers)
                answer = self.answers[place]
                if action == "answer":
                    del self.answers[place]
                self.hear(*answer)
            case "lose-message" if self.messages:
                del self.messages[nth % len(self.messages)]
            case "lose-answer" if self.answers:
                del self.answers[nth % len(self.answers)]
            case "exit" | "fail" if agent.alive:
                token = sorted(agent.alive)[nth % len(agent.alive)]
                agent.exit(token, 0 if action == "exit" else 1)
            case "crash":
                agent.crash()
                self.start()
            case "boot":
                agent.boot(self.name("b"))
                self.start()
            case "new-disk":
                agent.lose_journal(self.name("j"), server.slot.fence)
                self.start()
            case "wait":
                server.now += 5.0
            case "wait-long":
                server.now += 61.0
            case "wait-very-long":
                server.now += 901.0
            case "sweep":
                server.sweep()
            case "abort":
                run = server.runs[f"e{nth % 3}"]
                if run.task.status not in ENDED:
                    server.abort(run.task.id)
            case "pause":
                server.set_job(halt_json='{"mode":"pause","reason":""}')
            case "resume":
                server.set_job(halt_json=None)
            case "revoke":
                self.was_revoked = self.was_revoked or server.slot.claim_id is not None
                server.revoke()

    def name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def start(self) -> None:
        agent = self.agent
        agent.incarnation = self.server.start(agent.journal_id, agent.boot_id)
        agent.seq = 0

    def hear(self, incarnation: int, answer: AgentSyncAnswer | None) -> None:
        if incarnation != self.agent.incarnation:
            return  # the process that asked is gone
        if answer is None:
            self.start()
        else:
            self.agent.hear(answer)

    def check(self) -> None:
        agent, server = self.agent, self.server
        assert all(n == 1 for n in agent.starts.values())
        if not self.was_revoked:
            assert agent.most_alive <= 1
            if not self.is_idempotent:
                assert set(self.starts_of_executions().values()) <= {1}
        for run in server.runs.values():
            late = run.execution.late_json
            assert late is None or json.loads(late)["token"] != server.ended_by.get(run.task.id)
        assert not server.revoked & set(server.ended_by.values())
        for statuses in server.history.values():
            final = next((n for n, status in enumerate(statuses) if status in ENDED), None)
            if final is not None:
                assert set(statuses[final:]) == {statuses[final]}

    def starts_of_executions(self) -> Counter[str]:
        return Counter(self.agent.started)

    def settle(self) -> None:
        """A good network, and commands that end."""
        server, agent = self.server, self.agent
        server.set_job(halt_json=None)
        self.messages.clear()
        self.answers.clear()
        for _ in range(120):
            for token in sorted(agent.alive & agent.journal.keys()):
                agent.exit(token, 0)
            self.hear(agent.incarnation, server.sync(agent.message()))
            server.now += 20.0
            server.sweep()
            if server.is_over and server.slot.claim_id is None:
                break


ACTIONS = st.lists(
    st.tuples(st.sampled_from(HARMLESS), st.integers(0, 5)), min_size=10, max_size=60
)
ALL = st.lists(
    st.tuples(st.sampled_from(HARMLESS + OPERATORS), st.integers(0, 5)), min_size=10, max_size=60
)


@settings(max_examples=300)
@given(actions=ACTIONS, idempotent=st.booleans())
def test_a_bad_network_loses_no_result_and_starts_nothing_twice(
    actions: list[tuple[str, int]], idempotent: bool
) -> None:
    world = World(idempotent=idempotent)
    for action, nth in actions:
        world.act(action, nth)
        world.check()
    world.settle()
    world.check()
    assert world.server.is_over
    assert world.server.slot.claim_id is None
    assert not world.agent.journal, "every result was acknowledged"
    for token, code in world.agent.exits.items():
        taken = [run for run in world.server.runs.values() if token in run.taken]
        assert len(taken) == 1
        run = taken[0]
        if run.execution.token == token and run.execution.late_json is None:
            assert run.execution.exit_code == code


@settings(max_examples=300)
@given(actions=ALL, idempotent=st.booleans())
@example(
    [(name, 0) for name in ("sync", "deliver", "answer") * 2 + ("sync", "deliver", "new-disk")],
    False,
)
@example(
    [(name, 0) for name in ("half-round",) * 6 + ("boot", "round", "round", "new-disk")], False
)
@example([(name, 0) for name in ("half-round", "boot", "round", "round", "new-disk")], True)
def test_operators_boots_and_new_disks_start_nothing_twice(
    actions: list[tuple[str, int]], idempotent: bool
) -> None:
    world = World(idempotent=idempotent)
    for action, nth in actions:
        world.act(action, nth)
        world.check()
    world.settle()
    world.check()
    if world.server.slot.claim_id is not None:
        # Only a new journal in the same boot keeps a slot: an operator has to revoke it.
        assert world.server.slot.fence <= world.server.agent.journal_token
        world.server.revoke()
        world.was_revoked = True
        world.settle()
        world.check()
    assert world.server.is_over
    assert world.server.slot.claim_id is None
