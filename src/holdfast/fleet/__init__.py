"""The fleet: commands on many hosts, with blocks, approvals and rollouts. An internal package.

The use cases are classes over a `Store`, e.g. `hosts.Hosts`. The rules are in `holdfast.core.fleet`; the
statements of this package are in `statements/`.
Promises: a change, its event and its audit row are one transaction.
"""
