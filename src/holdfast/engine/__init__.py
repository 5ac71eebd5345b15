"""The loops that run tasks. An internal package.

The dispatcher claims tasks, the pool runs handlers, the completer commits their outcomes, the heartbeat
renews leases, the sweeper takes back expired leases, the scheduler fires schedules. The supervisor
restarts a loop that dies. Every loop is `tick() -> seconds until the next tick`, and can be woken.
`holdfast.core` decides how a task changes; the loops do not.
"""
