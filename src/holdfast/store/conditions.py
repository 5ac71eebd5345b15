"""Conditions that stand in statements of several packages: each has its text here, for both databases.

Statements name them as macros (`{host_answers}`). They are written over `h`, a row of holdfast_host, and `a`,
that of its agent, and take the parameters `since` and `pushed` (`FleetRules.look`).
Promises: the texts are valid in both dialects. Never: puts values into SQL.
"""

from __future__ import annotations

from typing import Final

_SINCE: Final = "CAST(:since AS double precision)"
_ANSWERS: Final = (
    "CASE WHEN CAST(:pushed AS text) LIKE '%' || h.driver || '%' "
    f"THEN h.unreachable_at IS NULL OR h.unreachable_at < {_SINCE} "
    f"ELSE a.seen_at IS NOT NULL AND a.seen_at >= {_SINCE} END"
)
"""Whether a host answers. One that a process of ours reaches does, unless the last attempt just failed."""
_SERVICE: Final = (
    "CASE WHEN h.state = 'cordoned' THEN 'closed' WHEN h.state IS NULL OR h.state <> 'active' THEN 'silent' "
    "WHEN CAST(:pushed AS text) NOT LIKE '%' || h.driver || '%' AND a.is_closed = 1 "
    f"AND a.seen_at >= {_SINCE} THEN 'closed' WHEN {_ANSWERS} THEN 'ready' ELSE 'silent' END"
)
"""`core.fleet.hosts.service.HostService`."""
CONDITIONS: Final = {"host_answers": f"({_ANSWERS})", "host_service": f"({_SERVICE})"}
