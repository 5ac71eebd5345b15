"""The row of a token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from holdfast.core import codec
from holdfast.core.access import Principal
from holdfast.core.node_identity import NodeState
from holdfast.core.rights import Operation, PrincipalKind, Role
from holdfast.core.token import TokenKind, TokenState, TokenTimes, token_state

_names: Final = msgspec.json.Decoder(list[str])
KINDS: Final = {
    TokenKind.USER: PrincipalKind.USER,
    TokenKind.NODE: PrincipalKind.NODE,
    TokenKind.AGENT: PrincipalKind.AGENT,
    TokenKind.JOIN: PrincipalKind.JOIN,
}
_JSON: Final = {"roles": "roles_json", "projects": "projects_json", "scopes": "scopes_json"}


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret."""

    id: str
    kind: TokenKind
    name: str
    principal: str
    roles: tuple[str, ...]
    projects: tuple[str, ...]
    scopes: tuple[str, ...] | None = None
    """None: all operations that the roles allow."""
    node_id: str | None = None
    uses_left: int | None = None
    created_by: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None
    node_state: str | None = None
    """The state of the registered node that the token belongs to."""

    def state(self, now: float) -> TokenState:
        """A node that is revoked has no credential, whatever its tokens say."""
        if self.node_state == NodeState.REVOKED:
            return TokenState.REVOKED
        return token_state(TokenTimes(self.expires_at, self.revoked_at, self.uses_left), now)

    def as_principal(self) -> Principal:
        """The identity behind the token. A role or scope that this version does not have counts for
        nothing."""
        scopes = None if self.scopes is None else frozenset(_known(Operation, self.scopes))
        return Principal(
            self.principal,
            KINDS[self.kind],
            frozenset(_known(Role, self.roles)),
            frozenset(self.projects),
            scopes,
            self.node_id,
            self.node_state == NodeState.QUARANTINED,
        )

    def columns(self) -> dict[str, Any]:
        """The values of the columns that an insert writes."""
        values = asdict(self)
        for field, column in _JSON.items():
            names = values.pop(field)
            values[column] = None if names is None else codec.dumps(list(names))
        del values["revoked_at"], values["used_at"], values["node_state"]
        return {**values, "kind": self.kind.value}


def to_token(row: Sequence[Any]) -> Token:
    """The token of a row, in the order of the statements."""
    values = dict(zip(Token.__struct_fields__, row, strict=True))
    for field in _JSON:
        values[field] = None if values[field] is None else tuple(_names.decode(values[field]))
    values["kind"] = TokenKind(values["kind"])
    return Token(**values)


def _known(enum: Any, names: Sequence[str]) -> list[Any]:
    members = enum.__members__.values()
    return [enum(name) for name in names if name in members]
