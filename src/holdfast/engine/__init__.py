"""Loops that move tasks.

The dispatcher claims, the pool runs handlers, the completer commits what they return, the keeper renews
leases, the sweeper takes back what the dead held, the scheduler fires; the supervisor keeps them all up.
Every loop is `tick() -> seconds until the next`, and can be woken. None of them decides about a task:
`holdfast.core` does.
"""
