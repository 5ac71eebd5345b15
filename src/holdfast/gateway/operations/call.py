"""One request, whatever its transport: who asks, under which rights, with which key and version.

Promises: every operation asks `authorise` with the project of the object itself. An object of a foreign
project looks like one that does not exist. An act, its audit row and its answer for a repeat are one
transaction (`by`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from holdfast.core import codec
from holdfast.core.access import (
    ALL_PROJECTS,
    Allowed,
    DenialReason,
    Principal,
    home_project,
    judge,
    visible_projects,
)
from holdfast.core.audit import AuditEntry
from holdfast.core.check import check_name
from holdfast.core.decide import Refusal, Transition
from holdfast.core.errors import PreconditionFailed
from holdfast.core.rights import Operation, PrincipalKind
from holdfast.errors import InvalidInput, NotFound, VersionConflict
from holdfast.fleet.webhooks.webhooks import Incoming
from holdfast.gateway.services import GatewayServices
from holdfast.queue.by import By
from holdfast.sync.access.foresee import Foreseeing
from holdfast.sync.access.recorded import Recorded, Repeatable

KEY_CHARS_MAX: Final = 200
MISSING: Final = "there is no {noun} '{id}', or you have no access to it"


class Answer(msgspec.Struct, frozen=True):
    """The answer of an operation."""

    body: Any
    status: int = 200
    version: int | None = None
    """The version of the resource, for an ETag."""
    secret: bool = False
    """Whether the body must not be stored for a repeat."""
    text: bytes | None = None
    """The answer for a client that accepts `text/plain`: raw bytes."""
    headers: dict[str, str] = {}


class Call:
    """A request with its principal."""

    def __init__(
        self,
        services: GatewayServices,
        principal: Principal,
        *,
        request_id: str,
        token_id: str | None = None,
        digest: str = "",
        key: str | None = None,
        request: object = None,
        if_match: int | None = None,
        incoming: Incoming | None = None,
        dry_run: bool = False,
    ) -> None:
        self.services = services
        self.principal = principal
        self.request_id = request_id
        self.token_id = token_id
        self.digest = digest
        """Of the secret of the request; empty for the bootstrap token and calls in this process."""
        self.key = None if key is None else check_name("Idempotency-Key", key, most=KEY_CHARS_MAX)
        self.request = request
        """What a key stands for: path values and body."""
        self.if_match = if_match
        """The version in If-Match."""
        self.incoming = incoming
        """The signed request of a webhook source. Its `webhook-id` is its key."""
        self.dry_run = dry_run
        """Whether a change is undone once its answer is known: see `sync/access/foresee.py`."""

    # -- rights ------------------------------------------------------------------------------------

    def authorise(
        self,
        operation: Operation,
        *,
        project: str,
        owner_node: str | None = None,
        requester: str | frozenset[str] | None = None,
        noun: str = "",
        id: str = "",
    ) -> Allowed:
        """Judges the operation on an object of the project. NotFound for a foreign project if `noun` names
        the object, else Forbidden."""
        verdict = judge(
            self.principal, operation, project=project, owner_node=owner_node, requester=requester
        )
        if isinstance(verdict, Allowed):
            return verdict
        if verdict.reason is DenialReason.PROJECT and noun:
            raise missing(noun, id)
        raise verdict.error()

    def authorise_store(self, operation: Operation) -> Allowed:
        """For changes of what all projects share: needs access to all of them."""
        return self.authorise(operation, project=ALL_PROJECTS)

    def authorise_any(self, operation: Operation, *, owner_node: str | None = None) -> Allowed:
        """For reads of what all projects share, and for lists that `projects` filters."""
        return self.authorise(operation, project=self.home, owner_node=owner_node)

    @property
    def projects(self) -> frozenset[str] | None:
        """The projects that lists are limited to. None for all."""
        return visible_projects(self.principal)

    @property
    def home(self) -> str:
        """See `home_project`."""
        return home_project(self.principal)

    # -- changes -----------------------------------------------------------------------------------

    def by(
        self,
        operation: Operation,
        *,
        project: str,
        subject: str | Callable[[Any], str],
        actor: str,
        reason: str = "",
        expected_version: int | None = None,
        answer: Callable[[Any], Answer | None] | None = None,
        detail: object = None,
        has_changed: Callable[[Any], bool] | None = None,
    ) -> By:
        """Who makes a change, with the audit row and, for a request with a key, the answer to store.

        `subject`: what the audit says was changed; a call that gets the outcome for what the change makes.
        `answer` makes the answer from the outcome of the change; None for a change that was refused.
        `has_changed`: whether the outcome is a change, so that the audit has it. Without it, it always is."""
        if answer is None and self.dry_run:
            answer = _nothing_to_show
        entries = self.entries(operation, project=project, subject=subject, actor=actor,
                                reason=reason, detail=detail, has_changed=has_changed)  # fmt: skip
        beside = Recorded(
            entries,
            repeatable=self.repeatable(operation) if answer is not None else None,
            answer=None if answer is None else lambda outcome: stored(answer(outcome)),
        )
        return By(actor, reason, self.version(expected_version), beside)

    def version(self, expected_version: int | None) -> int | None:
        """The version that the object must have: that of the body or of If-Match."""
        if self.if_match is not None and expected_version not in (None, self.if_match):
            raise InvalidInput("expected_version and If-Match name different versions: give one")
        return expected_version if self.if_match is None else self.if_match

    @contextmanager
    def preconditions(self) -> Iterator[None]:
        """Turns VersionConflict into PreconditionFailed if the version came in If-Match."""
        try:
            yield
        except VersionConflict as error:
            if self.if_match is None:
                raise
            failed = PreconditionFailed(str(error))
            failed.current = error.current
            raise failed from None

    def repeatable(self, operation: Operation) -> Repeatable | None:
        """The entry of the request's key; None without a key. That of a dry run undoes the change."""
        if self.dry_run:
            return Foreseeing()
        if self.incoming is not None:
            return self.incoming.repeatable(operation, self.request_id)
        if self.key is None:
            return None
        # Several tokens may have one name, for other projects. A node has one name, and its token changes.
        is_user = self.principal.kind is PrincipalKind.USER and self.token_id is not None
        scope = f"api:{self.token_id if is_user else self.principal.name}"
        return Repeatable(scope, operation, self.key, self.request, self.request_id)

    async def begin_repeatable(self, operation: Operation) -> Repeatable | None:
        """Starts the entry of the key in a transaction apart, for an act of several transactions. `Replayed`
        if the request was answered before."""
        repeatable = self.repeatable(operation)
        if repeatable is not None:
            await self.services.store.run(lambda _dialect, _ids, now: repeatable.hold(now))
        return repeatable

    async def check_answered(self, operation: Operation) -> None:
        """`Replayed` if the request was answered before: for an act that is judged before its transaction."""
        if (repeatable := self.repeatable(operation)) is not None:
            await self.services.store.run(lambda _dialect, _ids, now: repeatable.look(now))

    async def end_repeatable(self, repeatable: Repeatable | None, answer: Answer) -> None:
        """Stores the answer of such an act."""
        if repeatable is not None:
            await self.services.store.run(
                lambda _dialect, _ids, now: repeatable.end(stored(answer), now)
            )

    def entries(
        self,
        operation: Operation,
        *,
        project: str,
        subject: str | Callable[[Any], str],
        actor: str,
        reason: str = "",
        detail: object = None,
        has_changed: Callable[[Any], bool] | None = None,
    ) -> Callable[[object, float], Sequence[AuditEntry]]:
        """Makes the audit rows of an act: one for each task that a list of rulings changed, else one."""
        common: dict[str, Any] = {
            "actor": actor,
            "operation": operation.value,
            "reason": self.services.redaction.text(reason),
            "detail_json": codec.dumps(
                {} if detail is None else self.services.redaction.value(detail)
            ),
            "request_id": self.request_id,
        }

        def entries(outcome: object, now: float) -> Sequence[AuditEntry]:
            if has_changed is not None and not has_changed(outcome):
                return []
            if not isinstance(outcome, list) or not _are_rulings(outcome):
                name = subject if isinstance(subject, str) else subject(outcome)
                return [AuditEntry(at=now, project=project, subject=name, **common)]
            return [
                AuditEntry(
                    at=now,
                    project=ruling.after.project,
                    subject=ruling.after.id,
                    before_version=ruling.before.version,
                    after_version=ruling.after.version,
                    **common,
                )
                for ruling in outcome
                if isinstance(ruling, Transition)
            ]

        return entries


def stored(answer: Answer | None) -> codec.Json:
    """An answer as the ledger keeps it."""
    if answer is None:
        return None
    return {"status": answer.status, "body": answer.body, "version": answer.version}


def replayed(value: codec.Json) -> Answer:
    """The answer that the ledger kept."""
    return Answer(value["body"], value["status"], value["version"])


def _nothing_to_show(_outcome: object) -> Answer:
    """The answer of a dry run whose change keeps no answer."""
    return Answer({})


def missing(noun: str, id: str) -> NotFound:
    """The same error for what does not exist and for what belongs to a foreign project."""
    error = NotFound(MISSING.format(noun=noun, id=id))
    error.noun = noun
    return error


def _are_rulings(outcome: list[Any]) -> bool:
    return all(isinstance(ruling, Transition | Refusal) for ruling in outcome)
