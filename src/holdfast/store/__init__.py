"""The truth.

`port.py` is what the rest of Holdfast sees. `scripts/` are the transactions, written once as generators
that yield named statements; `sqlite/` and `postgres/` each have a driver that runs them, the statements
in `.sql` files under the same names, and numbered migrations. Everyone else asks for verbs, never SQL.
"""
