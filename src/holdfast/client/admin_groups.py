"""The parts of a client for conflicts, tokens, projects and the audit.
`scripts/client_fronts.py` writes their blocking forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from holdfast.client.admin_models import (
    AuditView,
    ConflictView,
    ProjectView,
    Settled,
    TokenView,
)
from holdfast.client.api import Rows, decoded, given
from holdfast.client.calls import path_of
from holdfast.client.groups import Group
from holdfast.client.issued import issued
from holdfast.client.models import Json

Take = Literal["server", "client", "merged"]
Strategy = Literal["merge", "last_write_wins", "manual"]


class Conflicts(Group):
    """Writes of nodes that the server could not join."""

    def list(self, q: str = "", *, limit: int | None = None) -> Rows[ConflictView]:
        """The conflicts that match, e.g. `state:open project:web`, oldest first."""
        return self._api.rows(ConflictView, "conflicts", limit=limit, q=q or None)

    async def get(self, conflict_id: str) -> ConflictView:
        """One conflict with both sides."""
        return await self._api.get(ConflictView, "conflicts", conflict_id)

    async def settle(
        self,
        conflict_id: str,
        take: Take,
        *,
        merged: Json = None,
        reason: str = "",
        expected_version: int | None = None,
    ) -> Settled:
        """Ends the conflict with one of its sides, or with a third content."""
        body = given(merged=merged, expected_version=expected_version)
        body |= {"take": take, "reason": reason}
        return await self._api.send(Settled, "POST", "conflicts", conflict_id, "settle", body=body)


class Tokens(Group):
    """Credentials. Only an admin may read or change them."""

    def list(self, *, limit: int | None = None) -> Rows[TokenView]:
        """The tokens without their secrets."""
        return self._api.rows(TokenView, "tokens", limit=limit)

    async def create(
        self,
        name: str,
        roles: Sequence[str],
        *,
        projects: Sequence[str] | None = None,
        scopes: Sequence[str] | None = None,
        expires_in_seconds: float | None = None,
        reason: str = "",
    ) -> TokenView:
        """The answer has the secret in `token`, once."""
        body = given(projects=projects, scopes=scopes, expires_in_seconds=expires_in_seconds)
        body |= {"name": name, "roles": roles, "reason": reason}
        return decoded(await issued(self._api.http, path_of("tokens"), body), TokenView)

    async def create_join(
        self,
        *,
        project: str = "default",
        kind: Literal["node", "agent"] = "node",
        uses: int = 1,
        expires_in_seconds: float | None = None,
        reason: str = "",
    ) -> TokenView:
        """A token with which nodes register; its secret is in `token`."""
        body = given(expires_in_seconds=expires_in_seconds)
        body |= {"project": project, "kind": kind, "uses": uses, "reason": reason}
        return decoded(await issued(self._api.http, path_of("join-tokens"), body), TokenView)

    async def rotate(self, token_id: str) -> TokenView:
        """Gives the token another secret."""
        path = path_of("tokens", token_id, "rotate")
        return decoded(await issued(self._api.http, path), TokenView)

    async def revoke(self, token_id: str) -> TokenView:
        """Ends the token: it is refused from the next request on."""
        return await self._api.send(TokenView, "DELETE", "tokens", token_id)


class Projects(Group):
    """Projects, and how the conflicts of their tasks are settled."""

    def list(self) -> Rows[ProjectView]:
        """The projects that the token may read, by name."""
        return self._api.unpaged(ProjectView, "projects")

    async def get(self, name: str) -> ProjectView:
        """One project."""
        return await self._api.get(ProjectView, "projects", name)

    async def create(
        self,
        name: str,
        *,
        strategy: Strategy = "merge",
        overrides: dict[str, str] | None = None,
        reason: str = "",
    ) -> ProjectView:
        """Creates a project. One that exists is returned as it is."""
        body = {"id": name, "strategy": strategy, "overrides": overrides or {}, "reason": reason}
        return await self._api.send(ProjectView, "POST", "projects", body=body)

    async def set(
        self,
        name: str,
        *,
        strategy: Strategy | None = None,
        overrides: dict[str, str] | None = None,
        reason: str = "",
        expected_version: int | None = None,
    ) -> ProjectView:
        """Changes the strategy of a project, or those of classes of fields."""
        body = given(strategy=strategy, overrides=overrides, expected_version=expected_version)
        body["reason"] = reason
        return await self._api.send(ProjectView, "PATCH", "projects", name, body=body)


class Audit(Group):
    """The acts of operators. Only an admin may read them."""

    def list(self, *, limit: int | None = None) -> Rows[AuditView]:
        """The acts, the latest first."""
        return self._api.rows(AuditView, "audit", limit=limit)

    async def verify(self) -> dict[str, Any]:
        """Whether no row was changed or removed: `ok`, `rows`, `head`, `first_wrong`."""
        return await self._api.get(dict[str, Any], "audit", "verify")
