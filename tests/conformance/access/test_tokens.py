"""Tokens and tickets on both databases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.audit import AuditEntry
from holdfast.core.rights import Role
from holdfast.core.token import BOOTSTRAP, TokenKind, token_digest, token_kind
from holdfast.errors import IdempotencyConflict, InvalidInput, NotFound
from holdfast.queue.by import By
from holdfast.store.audit import AuditStore
from holdfast.store.script import call, one
from holdfast.store.store import Store
from holdfast.sync.access import scripts
from holdfast.sync.access.recorded import Recorded, Repeatable, Replayed
from holdfast.sync.access.token import Token
from holdfast.sync.access.tokens import TICKET_SECONDS, Issued, NewToken, Ticket, Tokens
from tests.backends import Bench

ANN = By("user:ann")
VIEWER = NewToken(name="ci", roles=["viewer"], projects=["default", "web"])


def noted(**options: Any) -> By:
    def entries(token: object, now: float) -> list[AuditEntry]:
        assert isinstance(token, Token)
        row = AuditEntry(
            at=now, actor="user:ann", operation="tokens.manage", project="all", subject=token.id
        )
        return [row]

    return By("user:ann", beside=Recorded(entries, **options))


async def test_a_secret_is_shown_once_and_stored_as_its_digest(store: Store) -> None:
    tokens = Tokens(store)
    issued = await tokens.create(VIEWER, noted())
    assert token_kind(issued.secret) is TokenKind.USER
    found = await tokens.find(issued.secret)
    assert found is not None
    principal = found.as_principal()
    assert (principal.name, principal.roles) == ("user:ci", frozenset({Role.VIEWER}))
    assert principal.projects == {"default", "web"}
    rows = await store.read(
        lambda: one(
            call("holdfast.sync.access:token_by_digest", digest=token_digest(issued.secret))
        )
    )
    assert len(rows) == 1
    assert issued.secret not in str(rows)
    assert (await AuditStore(store).verify()).head.seq == 1
    page = await store.feed.read(None, 10)
    assert [event.kind for event in page.events] == ["token.created"]  # type: ignore[union-attr]
    assert issued.secret not in str(page)


async def test_a_revoked_token_counts_no_more(store: Store) -> None:
    tokens = Tokens(store)
    issued = await tokens.create(VIEWER, ANN)
    revoked = await tokens.revoke(issued.token.id, noted())
    assert revoked.revoked_at is not None
    assert await tokens.revoke(issued.token.id, ANN) == revoked
    assert await tokens.find(issued.secret) is None
    with pytest.raises(NotFound):
        await tokens.revoke("tok_none", ANN)
    with pytest.raises(NotFound):
        await tokens.rotate(issued.token.id, ANN)


async def test_a_rotated_token_has_another_secret_and_a_new_life(
    store: Store, bench: Bench
) -> None:
    tokens = Tokens(store)
    issued = await tokens.create(
        NewToken(name="ci", roles=["operator"], expires_in_seconds=100.0), ANN
    )
    bench.clock.pause(60.0)
    again = await tokens.rotate(issued.token.id, noted())
    assert await tokens.find(issued.secret) is None
    bench.clock.pause(60.0)
    assert await tokens.find(again.secret) is not None
    bench.clock.pause(60.0)
    assert await tokens.find(again.secret) is None


async def test_tokens_are_listed_in_the_order_of_their_creation(store: Store, bench: Bench) -> None:
    tokens = Tokens(store)
    made = []
    for n in range(5):
        bench.clock.pause(1.0)
        made.append((await tokens.create(NewToken(name=f"t{n}", roles=["viewer"]), ANN)).token)
    first = await tokens.list(limit=3)
    assert first + await tokens.list(after=first[-1].id) == made


async def test_the_last_use_is_stored_once_a_minute(store: Store, bench: Bench) -> None:
    tokens = Tokens(store)
    issued = await tokens.create(VIEWER, ANN)
    used = []
    for _ in range(4):
        await tokens.find(issued.secret)
        used.append((await tokens.list())[0].used_at)
        bench.clock.pause(35.0)
    assert used[0] == used[1]
    assert used[2] == used[3]
    assert used[1] < used[2]  # type: ignore[operator]


async def test_a_join_token_is_used_up(store: Store) -> None:
    tokens = Tokens(store)
    issued = await tokens.create(
        NewToken(name="join", roles=["join"], kind=TokenKind.JOIN, uses=2), ANN
    )
    digest = token_digest(issued.secret)

    async def spend() -> Token | None:
        return await store.run(lambda _dialect, _ids, now: scripts.spend(digest, now))

    spent = await asyncio.gather(*(spend() for _ in range(4)))
    assert sorted(token is not None for token in spent) == [False, False, True, True]
    assert await tokens.find(issued.secret) is None


def ticket_of(issued: Issued) -> Ticket:
    token = issued.token
    return Ticket(token.as_principal(), token.id, token_digest(issued.secret))


async def test_a_ticket_ends_when_its_token_is_rotated(store: Store) -> None:
    tokens = Tokens(store)
    issued = await tokens.create(VIEWER, ANN)
    kept, late = [await tokens.open_ticket(ticket_of(issued)) for _ in range(2)]
    assert await tokens.take_ticket(kept) == ticket_of(issued)
    await tokens.rotate(issued.token.id, ANN)
    assert await tokens.take_ticket(late) is None


async def test_a_ticket_opens_one_connection(store: Store, bench: Bench) -> None:
    tokens = Tokens(store)
    secret = await tokens.open_ticket(Ticket(BOOTSTRAP))
    taken = await asyncio.gather(*(tokens.take_ticket(secret) for _ in range(3)))
    assert [ticket for ticket in taken if ticket is not None] == [Ticket(BOOTSTRAP)]
    late = await tokens.open_ticket(Ticket(BOOTSTRAP))
    bench.clock.pause(TICKET_SECONDS)
    assert await tokens.take_ticket(late) is None
    issued = await tokens.create(VIEWER, ANN)
    ticket = await tokens.open_ticket(ticket_of(issued))
    await tokens.revoke(issued.token.id, ANN)
    assert await tokens.take_ticket(ticket) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"roles": []},
        {"roles": ["worker"]},
        {"roles": ["king"]},
        {"roles": "admin"},
        {"projects": []},
        {"projects": ["Not a project"]},
        {"scopes": ["everything"]},
        {"expires_in_seconds": 0},
        {"uses": 0},
        {"name": ""},
    ],
)
def test_a_wrong_token_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        NewToken(**{"name": "x", "roles": ["viewer"], **fields})


async def test_a_repeat_gets_the_stored_answer_and_changes_nothing(store: Store) -> None:
    tokens = Tokens(store)

    def by(owner: str, request: str = "r") -> By:
        repeatable = Repeatable("api:user:ann", "tokens.manage", "key-1", request, owner)
        return noted(repeatable=repeatable, answer=lambda token: {"id": token.id})

    issued = await tokens.create(VIEWER, by("req_1"))
    with pytest.raises(Replayed) as replayed:
        await tokens.create(VIEWER, by("req_2"))
    assert replayed.value.answer == {"id": issued.token.id}
    with pytest.raises(IdempotencyConflict):
        await tokens.create(VIEWER, by("req_3", "other"))
    assert len(await tokens.list()) == 1
    assert (await AuditStore(store).head()).seq == 1


async def test_a_refused_act_may_be_repeated(store: Store) -> None:
    tokens = Tokens(store)

    def by(owner: str) -> By:
        repeatable = Repeatable("api:user:ann", "tokens.manage", "key-2", "r", owner)
        return noted(repeatable=repeatable, answer=lambda token: {"id": token.id})

    for owner in ("req_1", "req_2"):
        with pytest.raises(NotFound):
            await tokens.revoke("tok_none", by(owner))
