"""The queue: define tasks, enqueue them, run workers, inspect and change what is stored.

`queue.py` and `operator_calls.py` are the facade, `parts.py` wires the parts together. Running: `session.py`
(the state of each event loop), `runtime.py` (open, start, stop), `enqueue.py`, `types.py`, `pressure.py`,
`feed.py`. Use cases, shared by the Python API, the command line and the gateways: `tasks.py`, `queues.py`,
`schedules.py`, `dead_letters.py`, `nodes.py`, `locks.py`, `stats.py`. `by.py` has the actor and
the reason of a change, `views/` the JSON form of each object, `problem.py` that of an error. An internal
package: applications import `holdfast.TaskQueue`.
"""
