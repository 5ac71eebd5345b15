"""The short form of `python -m proof scale`: each meter counts something. No figure is judged here."""

from __future__ import annotations

from pathlib import Path

from proof.lab.servers import Postgres
from proof.scale import costs
from proof.scale.meters import measure
from proof.scale.process import Options

N = 20


def test_a_task_costs_time_log_and_commits(pg_server: Postgres, tmp_path: Path) -> None:
    lab = costs.Lab(tmp_path, pg_server, costs.QUICK)
    with lab.store("postgres") as (url, server):
        enqueued = measure(server, [("one", Options(url=url, n=N))], sampled=True)
        drained = measure(server, [("drain", Options(url=url, n=N))])
        size = costs.size(url, N)
        watched = measure(server, [("watch", Options(url=url))])
        pruned = measure(server, [("prune", Options(url=url, n=N))])
        assert costs.size(url, N)["task_bytes"] > 0
    assert (enqueued.n, drained.n, pruned.n) == (N, N, N)
    assert watched.n >= 3 * N
    assert min(enqueued.client_cpu, drained.client_cpu) > 0
    assert min(enqueued.wal, drained.wal, pruned.wal) > N * 100
    assert enqueued.commits >= N
    assert min(size.values()) > 0
