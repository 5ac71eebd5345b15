"""Jobs of the fleet: one command for many hosts.

The rules are in `holdfast.core.fleet`; the statements of this package are in `statements/`.
Promises: a job, its executions, its approval, its entry of the outbox and its event are one transaction, and
so is every later step.
"""
