"""The tables of docs/reference/sync.md, from the tables in the core.

python -m tests.sync_tables        # writes them
"""

from __future__ import annotations

from holdfast.core.exchange.conflict import A_TASK, ENDED, ROWS, ConflictRow
from holdfast.core.exchange.handshake import HANDSHAKE_ROWS, HandshakeRow, Presence
from holdfast.core.exchange.push import Actor, VersionRelation
from holdfast.core.exchange.sync_errors import MEANINGS
from holdfast.gateway.rest.sync_v2 import PREFIX, ROUTES
from tests.pages import REFERENCE

PAGE = REFERENCE / "sync.md"
ASKS = {
    "1": "a mutation id that was answered before",
    "2": "a new task",
    "3a": "anything else",
    "3b": "anything, of a deleted task",
    "3c": "anything else",
    "4": "a text that is no status",
    "5a": "the same creation again",
    "5b": "anything else",
    "6": "the same completion again",
    "7a": "`completed` or `failed` with a result or an error",
    "7b": "anything else",
    "8": "a report: progress, phase, iteration, metrics",
    "9a": "`completed`",
    "9b": "`failed`",
    "10": "`queued` (release)",
    "11": "`aborted`",
    "12": "`stuck`",
    "13": "`paused`",
    "14": "`blocked`",
    "15a": "`queued`: lifts its own hold",
    "15b": "`running`: lifts its own hold and claims",
    "16": "to lift the hold of an operator, or to go on without a decision",
    "17": "`completed` or `failed`",
    "18": "more than content",
    "19": "`running`",
    "20": "another status",
    "21": "more than content",
    "22": "content",
    "23": "another payload",
    "24": "content",
    "25a": "content, strategy `last_write_wins`",
    "25b": "content that the strategy `merge` joins",
    "26a": "content, strategy `manual`",
    "26b": "content that `merge` cannot join",
}
"""What each row of the table of pushes asks, in words."""


def tables() -> dict[str, str]:
    return {
        "endpoints": _table(
            ("call", "does", "right"),
            [(f"{r.method} `{PREFIX}{r.path}`", r.summary, f"`{r.operation}`") for r in ROUTES],
        ),
        "errors": _table(
            ("error", "HTTP", "code", "when"),
            [
                (f"`{name.value}`", str(m.http_status), f"`{m.code}`", m.when)
                for name, m in MEANINGS.items()
            ],
        ),
        "handshake": _table(
            ("server", "client's version", "changed locally", "other hash", "answer"),
            [_handshake(row) for row in HANDSHAKE_ROWS],
        ),
        "push": _table(
            ("row", "sender", "status", "item asks for", "expectedVersion", "outcome"),
            [_push(row) for row in ROWS],
        ),
    }


def _handshake(row: HandshakeRow) -> tuple[str, ...]:
    names = {
        "in_sync": "`inSync`",
        "needs_pull": "`needsPull`",
        "needs_push": "`needsPush`",
        "conflicts": f"`conflicts` ({row.kind})",
        "deleted": "`deleted`",
    }
    answer = ", ".join(names[name] for name in names if name in row.lists)
    base = "the server's" if row.presence is Presence.THERE else "0"
    standing = "any" if row.standing is None else f"{row.standing.value} {base}"
    return row.presence.value, standing, _flag(row.is_dirty), _flag(row.has_other_hash), answer


def _push(row: ConflictRow) -> tuple[str, ...]:
    everyone = len(row.actors) == len(Actor)
    actors = "any node" if everyone else ", ".join(sorted(actor.value for actor in row.actors))
    relations = ", ".join(sorted(relation.value for relation in row.relations))
    if len(row.relations) == len(VersionRelation):
        relations = "any"
    outcome = row.outcome
    parts = [outcome.error and f"`{outcome.error.value}`", f"`{outcome.action.value}`"]
    parts += [outcome.resolution and f"`{outcome.resolution.value}`"]
    if outcome.conflict is not None:
        parts.append(f"conflict {outcome.conflict.state.value}")
    shown = ", ".join(part for part in parts if part)
    return row.name, actors, _statuses(row), ASKS[row.name], relations, shown


def _statuses(row: ConflictRow) -> str:
    known = {
        A_TASK: "any",
        A_TASK | {None}: "any, or no such task",
        frozenset({None}): "no such task",
        A_TASK - ENDED: "not final",
        ENDED: "final",
    }
    names = sorted(f"`{status.value}`" for status in row.statuses if status is not None)
    return known.get(row.statuses, ", ".join(names))


def _flag(value: bool | None) -> str:
    return "any" if value is None else "yes" if value else "no"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def written(text: str) -> str:
    """The page with the tables of this version."""
    for name, table in tables().items():
        head, start, rest = text.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition("<!-- end -->")
        assert start, name
        assert end, name
        text = f"{head}{start}{table}\n{end}{tail}"
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
