"""What an offline node keeps on disk: replicas of tasks, the log of its mutations, and its claims.

Promises: a call returns after its effect is on the disk (SQLite with `synchronous=FULL`); a process that dies
at any moment loses nothing that was returned. A mutation that may have been sent keeps its id and its body.
One process uses a folder at a time (`database.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.client.node.database import NodeDatabase
from holdfast.client.node.report_log import MAKE_REPORTS, HeldClaim, ReportLog, WrittenReport
from holdfast.core import codec
from holdfast.core.exchange.offline import Fields, Mutation, Replica, Sealing
from holdfast.errors import SchemaMismatch

SCHEMA: Final = 2
_MAKE: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE task (
    id TEXT PRIMARY KEY, version INTEGER NOT NULL, hash TEXT, content TEXT NOT NULL,
    needs_pull INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE mutation (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, mutation_id TEXT NOT NULL UNIQUE, task_id TEXT NOT NULL,
    base_version INTEGER NOT NULL, base_hash TEXT, change TEXT NOT NULL,
    is_sealed INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX mutation_task ON mutation (task_id, seq);
CREATE TABLE refusal (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, mutation_id TEXT NOT NULL, task_id TEXT NOT NULL,
    base_version INTEGER NOT NULL, change TEXT NOT NULL, error TEXT NOT NULL, resolution TEXT,
    detail TEXT, conflict_id TEXT, at REAL NOT NULL
);
CREATE TABLE claim (task_id TEXT PRIMARY KEY, claim_id TEXT NOT NULL, fence INTEGER) WITHOUT ROWID;
"""


class Refused(msgspec.Struct, frozen=True):
    """A local change that the server refused. Its author decides what becomes of it."""

    mutation_id: str
    task_id: str
    base_version: int
    change: Fields
    error: str
    resolution: str | None
    detail: str | None
    conflict_id: str | None
    at: float


class Left(msgspec.Struct, frozen=True):
    """A change, or a part of one, that the server did not take, with its answer."""

    mutation: Mutation
    answer: Fields


class Journal:
    """The database of one node."""

    def __init__(self, path: Path | str) -> None:
        self._db = NodeDatabase(path)
        self._transaction = self._db.transaction
        self.reports = ReportLog(self._db)
        with self._transaction():
            [(version,)] = self._db.execute("PRAGMA user_version")
            if version == 0:
                self._db.execute(_MAKE)
            if version in (0, 1):
                self._db.execute(MAKE_REPORTS)
                self._db.execute(f"PRAGMA user_version={SCHEMA}")
        if version not in (0, 1, SCHEMA):
            self._db.close()
            raise SchemaMismatch(
                f"the folder was written by another version of Holdfast (schema {version}, not {SCHEMA})"
            )

    def close(self) -> None:
        self._db.close()

    # -- values ------------------------------------------------------------------------------------

    def value(self, key: str) -> str | None:
        rows = list(self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)))
        return str(rows[0][0]) if rows else None

    def set_value(self, key: str, value: str | None) -> None:
        if value is None:
            self._db.execute("DELETE FROM meta WHERE key = ?", (key,))
        else:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    # -- replicas ----------------------------------------------------------------------------------

    def replicas(self) -> list[Replica]:
        rows = self._db.execute(
            "SELECT id, version, hash, content, needs_pull FROM task ORDER BY id"
        )
        return [
            Replica(id, version, hash, codec.loads_object(content), bool(needs_pull))
            for id, version, hash, content, needs_pull in rows
        ]

    def replica(self, task_id: str) -> Replica | None:
        rows = self._db.execute(
            "SELECT id, version, hash, content, needs_pull FROM task WHERE id = ?", (task_id,)
        )
        for id, version, hash, content, needs_pull in rows:
            return Replica(id, version, hash, codec.loads_object(content), bool(needs_pull))
        return None

    def adopt(self, replicas: Sequence[Replica], gone: Sequence[str] = ()) -> None:
        """Replaces the state of tasks by the server's."""
        with self._transaction():
            for replica in replicas:
                self._db.execute(
                    "INSERT OR REPLACE INTO task VALUES (?, ?, ?, ?, ?)",
                    (
                        replica.id,
                        replica.version,
                        replica.hash,
                        codec.dumps(replica.content),
                        replica.needs_pull,
                    ),
                )
            for task_id in gone:
                self._db.execute("DELETE FROM task WHERE id = ?", (task_id,))

    def start_over(self, reason: str) -> None:
        """Forgets the server's state, after a reset; the log stays. The reason is kept until all was read
        again."""
        with self._transaction():
            self._db.execute("DELETE FROM task")
            self.set_value("cursor", None)
            # A reset during a reset: the stronger reason counts.
            if self.value("reset") in (None, "pruned"):
                self.set_value("reset", reason)

    def end_reset(self, moved: Sequence[Mutation]) -> None:
        with self._transaction():
            self._rebase(moved)
            self.set_value("reset", None)

    # -- the log -----------------------------------------------------------------------------------

    def log(self, task_id: str | None = None) -> list[Mutation]:
        """The mutations that the server has not answered, oldest first."""
        where, values = ("", ()) if task_id is None else ("WHERE task_id = ?", (task_id,))
        rows = self._db.execute(
            "SELECT seq, mutation_id, task_id, base_version, base_hash, change, is_sealed FROM mutation "
            f"{where} ORDER BY seq",
            values,
        )
        return [
            Mutation(seq, id, task, version, hash, codec.loads_object(change), bool(sealed))
            for seq, id, task, version, hash, change, sealed in rows
        ]

    def append(
        self,
        mutation_id: str,
        task_id: str,
        base_version: int,
        base_hash: str | None,
        change: Fields,
    ) -> None:
        self._db.execute(
            "INSERT INTO mutation (mutation_id, task_id, base_version, base_hash, change) "
            "VALUES (?, ?, ?, ?, ?)",
            (mutation_id, task_id, base_version, base_hash, codec.dumps(change)),
        )

    def seal(self, sealings: Sequence[Sealing]) -> None:
        """Writes what will be sent, before it is sent."""
        with self._transaction():
            for sealing in sealings:
                mutation = sealing.mutation
                self._db.execute(
                    "UPDATE mutation SET change = ?, is_sealed = 1 WHERE seq = ? AND is_sealed = 0",
                    (codec.dumps(mutation.change), mutation.seq),
                )
                for seq in sealing.absorbed:
                    self._db.execute("DELETE FROM mutation WHERE seq = ?", (seq,))

    def _rebase(self, mutations: Sequence[Mutation]) -> None:
        for mutation in mutations:
            self._db.execute(
                "UPDATE mutation SET base_version = ?, base_hash = ? WHERE seq = ? AND is_sealed = 0",
                (mutation.base_version, mutation.base_hash, mutation.seq),
            )

    def accept(
        self,
        done: Mutation,
        moved: Sequence[Mutation],
        replica: Replica,
        left: Left | None = None,
        now: float = 0.0,
    ) -> None:
        """The server has accepted a mutation. `left`: what it did not take of it, kept as evidence."""
        with self._transaction():
            self._db.execute("DELETE FROM mutation WHERE seq = ?", (done.seq,))
            if left is not None:
                self._keep(left, now)
            self._rebase(moved)
            self.adopt([replica])

    def refuse(
        self, ended: Sequence[Mutation], answer: Fields, adopted: Replica | None, now: float
    ) -> None:
        """The server has refused a mutation: it and those that end with it are kept as evidence."""
        with self._transaction():
            for mutation in ended:
                self._db.execute("DELETE FROM mutation WHERE seq = ?", (mutation.seq,))
                self._keep(Left(mutation, answer), now)
            gone = [] if adopted is not None else [ended[0].task_id]
            self.adopt([] if adopted is None else [adopted], gone)

    def refuse_reports(
        self, reports: Sequence[tuple[WrittenReport, Fields]], answer: Fields, now: float
    ) -> None:
        """The server has refused reports of a claim: what they say is kept as evidence."""
        with self._transaction():
            for report, change in reports:
                self.reports.remove(report)
                point = change.get("checkpoint", {})
                name = point.get("checkpointId") or f"{report.claim.claim_id}.{report.seqs[0]}"
                mutation = Mutation(0, name, report.claim.task_id, 0, None, change)
                self._keep(Left(mutation, answer), now)

    def _keep(self, left: Left, now: float) -> None:
        names = ("error", "resolution", "detail", "conflictId")
        error, resolution, detail, conflict_id = (_text(left.answer.get(name)) for name in names)
        mutation = left.mutation
        self._db.execute(
            "INSERT INTO refusal (mutation_id, task_id, base_version, change, error, resolution, "
            "detail, conflict_id, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                mutation.mutation_id,
                mutation.task_id,
                mutation.base_version,
                codec.dumps(mutation.change),
                error or "UNKNOWN",
                resolution,
                detail,
                conflict_id,
                now,
            ),
        )

    def refusals(self) -> list[Refused]:
        rows = self._db.execute(
            "SELECT mutation_id, task_id, base_version, change, error, resolution, detail, conflict_id, at "
            "FROM refusal ORDER BY seq"
        )
        return [
            Refused(id, task, version, codec.loads_object(change), error, how, detail, conflict, at)
            for id, task, version, change, error, how, detail, conflict, at in rows
        ]

    def dismiss(self, mutation_id: str | None) -> int:
        """Removes the refusals of a mutation, or all."""
        where, values = (
            ("", ()) if mutation_id is None else (" WHERE mutation_id = ?", (mutation_id,))
        )
        self._db.execute(f"DELETE FROM refusal{where}", values)
        return self._db.changes()

    # -- claims ------------------------------------------------------------------------------------

    def claims(self) -> list[HeldClaim]:
        rows: Any = self._db.execute("SELECT task_id, claim_id, fence FROM claim ORDER BY task_id")
        return [HeldClaim(task_id, claim_id, fence) for task_id, claim_id, fence in rows]

    def keep_claim(self, claim: HeldClaim) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO claim VALUES (?, ?, ?)",
            (claim.task_id, claim.claim_id, claim.fence),
        )

    def end_claim(self, claim: HeldClaim) -> None:
        """Forgets a claim. A later claim of the same task stays."""
        with self._transaction():
            self._db.execute(
                "DELETE FROM claim WHERE task_id = ? AND claim_id = ? AND fence IS ?",
                (claim.task_id, claim.claim_id, claim.fence),
            )
            self.reports.forget(claim)

    def unended(self) -> list[HeldClaim]:
        """The claims whose runs the server may still keep for this node, the latest of each task: those that
        have not ended here, and those of results and reports that wait to be sent."""
        ended = [
            HeldClaim(each.task_id, str(each.change["claimId"]), int(each.change["fence"]))
            for each in self.log()
            if "fence" in each.change and "claimId" in each.change
        ]
        found = [*self.claims(), *ended, *self.reports.claims()]
        known = sorted(
            (claim for claim in found if claim.fence is not None), key=lambda each: each.fence or 0
        )
        return list({claim.task_id: claim for claim in known}.values())


def _text(value: object) -> str | None:
    return None if value is None else str(value)
