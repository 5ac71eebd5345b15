"""The store: durable state of tasks, locks, the ledger and the feed. An internal package.

`store.py` has the verbs that other packages call; they never see SQL. `port.py` has the ports of a database.
`scripts/` has the transactions, written once as generators that yield named statements, and `fast/` the
shortcuts for common cases. `sqlite/` and `postgres/` each have a driver that runs scripts, the statements in
`.sql` files under the same names, and numbered migrations.
"""
