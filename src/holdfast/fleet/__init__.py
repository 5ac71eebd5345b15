"""The fleet: commands on many hosts, with blocks, approvals and rollouts. An internal package.

The use cases are classes over a `Store`, e.g. `hosts.hosts.Hosts`, a folder for each noun; `fleet.py` builds
them all. The rules are in `holdfast.core.fleet`; the statements of this package are in `statements/`.
Promises: a change, its event and its audit row are one transaction.
"""
