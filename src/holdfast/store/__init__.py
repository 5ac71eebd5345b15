"""The store: durable state of tasks, locks, the ledger and the feed. An internal package.

`store.py` has the verbs that other packages call, and the parts for all else: `reads.py`, `feed.py`,
`backlog.py`, `runs.py`, `links.py`, `cascades.py`, `schedules.py`, `upkeep.py`. Callers never see SQL.
`inserts.py` and `claims.py` have the general paths of two verbs. `port.py` has the ports of a database.
`scripts/` has the transactions, written once as generators that yield named statements, and `fast/` the
shortcuts for common cases. `sqlite/` and `postgres/` each have a driver that runs scripts, the statements in
`.sql` files under the same names, and numbered migrations.
"""
