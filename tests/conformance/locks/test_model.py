"""Leases against a model: any order of requests, renewals, cancellations, deaths, revocations and time.

    HOLDFAST_LOCKS_EXAMPLES=5000 pytest tests/conformance/locks/test_model.py     # the long campaign

The same scripts run over dicts and over SQLite; both must answer what the model says.
"""

from __future__ import annotations

import os
import random
from typing import Any, TypeVar

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.clock import VirtualClock
from holdfast.core.ids import Ids
from holdfast.core.lease import LeaseDenied, LeaseGranted, LeaseRequest, LossReason
from holdfast.primitives.locks.backend import MemoryBackend
from holdfast.store.script import Script
from holdfast.store.scripts import leases as scripts
from holdfast.store.sqlite import connection as sqlite, in_memory
from holdfast.store.sqlite.dialect import SqliteDialect

T = TypeVar("T")
EXAMPLES = int(os.environ.get("HOLDFAST_LOCKS_EXAMPLES", "100"))
TTL, GRACE, WAITER = 10.0, 4.0, 3.0
CLAIMS = ("a", "b", "c", "d")
ROLES = ("holder", "head", "second")
ttls = st.sampled_from([TTL, TTL / 4])
claims = st.sampled_from((*ROLES, *CLAIMS))


class Leases(RuleBasedStateMachine):
    """One resource. `holder` is the expected state of the store: (claim, fence, end), or None."""

    @initialize()
    def begin(self) -> None:
        self.memory = MemoryBackend(VirtualClock())
        self.file = sqlite.connect(":memory:")
        in_memory.create(self.file)
        self.now = 1000.0
        self.fence = 0
        self.holder: tuple[str, int, float, float] | None = None
        self.opens_at = 0.0
        self.queue: list[tuple[str, float]] = []
        self.granted: dict[int, str] = {}
        self.ids = Ids(random.Random(1))
        self.events = 0
        """Number of events expected in the feed: revocations, and grants after an expired lease."""

    def teardown(self) -> None:
        if hasattr(self, "file"):
            self.file.close()

    def both(self, make: Any) -> Any:
        in_memory = drive(self.memory, make(self.memory))
        in_file = sqlite.run(self.file, make(scripts.Teller(SqliteDialect(), self.ids)))
        assert in_memory == in_file
        return in_file

    @invariant()
    def every_loss_is_one_event(self) -> None:
        if hasattr(self, "file"):
            rows = self.file.execute("SELECT coalesce(sum(events_count), 0) FROM holdfast_feed")
            assert rows.fetchall() == [(self.events,)]

    def alive(self) -> list[str]:
        return [claim for claim, until in self.queue if until > self.now]

    def who(self, claim: str) -> str:
        """The claim that has a role now, or the claim itself."""
        waiting = [c for c, _ in self.queue]
        roles = {"holder": self.holder[0] if self.holder else "a"}
        roles |= dict(zip(("head", "second"), waiting, strict=False))
        return roles.get(claim, claim if claim in CLAIMS else "b")

    def is_free(self) -> bool:
        if self.holder is None:
            return self.opens_at <= self.now
        return self.holder[2] + self.holder[3] <= self.now

    def drop(self, claim: str) -> None:
        """A withdrawal or a grant also removes dead waiters."""
        self.queue = [(c, until) for c, until in self.queue if c != claim and until > self.now]

    # -- rules ---------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.9, 3.0, 3.1]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(claim=claims, waits=st.booleans(), grace=st.sampled_from([0.0, GRACE]), ttl=ttls)
    def ask(self, claim: str, waits: bool, grace: float, ttl: float = TTL) -> None:
        claim = self.who(claim)
        request = LeaseRequest(
            "r", claim, f"owner of {claim}", ttl, grace, WAITER if waits else 0.0
        )
        verdict = self.both(lambda hinter: scripts.ask(hinter, request, self.now))
        if self.holder and self.holder[0] == claim and self.holder[2] > self.now:
            assert isinstance(verdict, LeaseGranted)
            assert not verdict.is_new
            assert verdict.lease.fence == self.holder[1]
            until = max(self.holder[2], self.now + ttl)
            assert verdict.lease.expires_at == until, "never shorter than granted before"
            self.holder = (claim, self.holder[1], until, self.holder[3])
            self.drop_if_any(claim)
            return
        places = [c for c, until in self.queue if until > self.now or c == claim]
        is_first = places[0] == claim if places else True
        if is_first and self.is_free():
            assert isinstance(verdict, LeaseGranted), (verdict, self.queue)
            assert verdict.took_over == (self.holder is not None)
            self.events += verdict.took_over
            self.fence += 1
            assert verdict.lease.fence == self.fence
            assert self.fence not in self.granted
            self.granted[self.fence] = claim
            self.drop_if_any(claim)
            self.holder = (claim, self.fence, self.now + ttl, grace)
            return
        assert isinstance(verdict, LeaseDenied), (verdict, self.queue)
        if waits:
            if any(c == claim for c, _ in self.queue):
                self.queue = [
                    (c, self.now + WAITER if c == claim else until) for c, until in self.queue
                ]
            else:
                self.queue.append((claim, self.now + WAITER))

    @rule()
    def everybody_who_waits_asks_the_last_first(self) -> None:
        for claim, _ in reversed(list(self.queue)):
            self.ask(claim, True, 0.0)

    @rule(late=st.sampled_from([-0.1, 0.0, 0.1, GRACE]))
    def the_holder_renews_around_its_end(self, late: float) -> None:
        if self.holder is not None:
            self.now = max(self.now, self.holder[2] + late)
            self.renew("holder", False)

    def drop_if_any(self, claim: str) -> None:
        if self.alive() or any(c == claim for c, _ in self.queue):
            self.drop(claim)

    @rule(claim=claims)
    def cancel(self, claim: str) -> None:
        """A waiter gives up, possibly during its grant."""
        claim = self.who(claim)
        follower = self.both(lambda hinter: scripts.leave(hinter, "r", claim, self.now))
        self.drop(claim)
        if self.holder and self.holder[0] == claim:
            self.holder, self.opens_at = None, 0.0
        held = self.holder is not None and self.holder[2] > self.now
        assert follower == (None if held or not self.alive() else self.alive()[0])

    @rule(claim=claims, stale=st.booleans(), ttl=ttls)
    def renew(self, claim: str, stale: bool, ttl: float = TTL) -> None:
        claim, fence = self.who(claim), self.fence - stale
        reason = self.both(lambda _: scripts.renew("r", claim, fence, ttl, self.now))
        holder = self.holder
        if holder and holder[:2] == (claim, fence) and holder[2] > self.now:
            assert reason is None
            self.holder = (claim, fence, max(holder[2], self.now + ttl), holder[3])
        else:
            assert isinstance(reason, LossReason)

    @rule(claim=claims, stale=st.booleans())
    def release(self, claim: str, stale: bool) -> None:
        claim, fence = self.who(claim), self.fence - stale
        reason, follower = self.both(
            lambda hinter: scripts.release(hinter, "r", claim, fence, self.now)
        )
        if self.holder and self.holder[:2] == (claim, fence):
            self.holder, self.opens_at = None, 0.0
            assert (reason, follower) == (None, self.alive()[0] if self.alive() else None)
        elif self.holder is None and fence == self.fence:  # a repeated release
            assert (reason, follower) == (None, self.alive()[0] if self.alive() else None)
        else:
            assert isinstance(reason, LossReason)

    @rule()
    def revoke(self) -> None:
        done = self.both(lambda hinter: scripts.revoke(hinter, "r", "ann", "why", self.now))
        if self.holder is None:
            assert done is None
            return
        self.fence += 1
        self.events += 1
        assert done[0].fence == self.fence
        assert done[0].claim_id == self.holder[0]
        self.opens_at = self.now + self.holder[3]
        self.holder = None

    # -- invariants -----------------------------------------------------------------------

    @invariant()
    def the_guard_lets_only_the_newest_grant_pass(self) -> None:
        if not hasattr(self, "file"):
            return
        for fence, claim in list(self.granted.items())[-3:]:
            passes = self.both(lambda _, c=claim, f=fence: scripts.guard("r", c, f))
            assert passes == (self.holder is not None and self.holder[:2] == (claim, fence))

    @invariant()
    def everybody_sees_the_same(self) -> None:
        if not hasattr(self, "file"):
            return
        shown = self.both(lambda _: scripts.show("r", self.now))
        if shown is not None:
            assert shown.lease.fence == self.fence
            assert shown.lease.claim_id == (self.holder[0] if self.holder else None)
            assert [waiter.claim_id for waiter in shown.waiters] == self.alive()


def drive(memory: MemoryBackend, script: Script[T]) -> T:
    try:
        statement = next(script)
        while True:
            statement = script.send(memory._execute(statement))
    except StopIteration as end:
        value: T = end.value
        return value


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=EXAMPLES, stateful_step_count=40)
