"""What the demo enqueues, and what must come of it.

Promises: pure data, the same at every run but for the ids' prefix.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

CHARGES: Final = 60
EMAILS: Final = 90
RESIZES: Final = 90
REPORTS: Final = 60
MERGES: Final = 15
FETCHES: Final = 3
"""That each merge waits for."""
IMPORTS: Final = 10
PARSES: Final = 15
BROKEN: Final = 6
"""Of the parses; half of them are edited and replayed, the others stay dead letters."""


class Plan(NamedTuple):
    """The requests, parents before children, and what is expected."""

    requests: list[dict[str, Any]]
    sums: dict[str, int]
    """The results that the merges must have."""
    imports: list[str]
    to_edit: list[str]
    to_leave: list[str]

    @property
    def ids(self) -> list[str]:
        return [request["id"] for request in self.requests]


def make(run: str) -> Plan:
    """The plan with ids of this run."""
    requests = [
        *_simple(run, "charge", CHARGES),
        *_simple(run, "email", EMAILS),
        *_simple(run, "resize", RESIZES),
        *_simple(run, "report", REPORTS),
    ]
    sums: dict[str, int] = {}
    for n in range(MERGES):
        numbers = [n * FETCHES + k for k in range(FETCHES)]
        requests += [_request(run, "fetch", number) for number in numbers]
        merge = _request(run, "merge", n, depends_on=[_id(run, "fetch", k) for k in numbers])
        requests.append(merge)
        sums[merge["id"]] = sum(number * number for number in numbers)
    imports = _simple(run, "import", IMPORTS)
    requests += imports
    requests += [
        _request(run, "publish", n, depends_on=[parent["id"]]) for n, parent in enumerate(imports)
    ]
    parses = [_parse(run, n) for n in range(PARSES)]
    requests += parses
    broken = [request["id"] for request in parses[:BROKEN]]
    return Plan(
        requests,
        sums,
        [request["id"] for request in imports],
        broken[: BROKEN // 2],
        broken[BROKEN // 2 :],
    )


def _simple(run: str, kind: str, count: int) -> list[dict[str, Any]]:
    return [_request(run, kind, n) for n in range(count)]


def _parse(run: str, n: int) -> dict[str, Any]:
    request = _request(run, "parse", n)
    request["payload"]["amount"] = "twelve" if n < BROKEN else n
    return request


def _request(run: str, kind: str, n: int, **more: Any) -> dict[str, Any]:
    return {"type": f"demo.{kind}", "id": _id(run, kind, n), "payload": {"n": n}, **more}


def _id(run: str, kind: str, n: int) -> str:
    return f"{run}-{kind}-{n:02d}"
