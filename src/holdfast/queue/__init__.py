"""What a user holds: a queue to define tasks on, enqueue into, run and look at.

`queue.py` is the facade; `parts.py` puts the parts together. Running: `session.py` (what is open in each
event loop), `runtime.py` (open, start, stop), `enqueue.py`, `types.py`, `pressure.py`, `feed.py`. Use
cases, called alike by every face: `tasks.py`, `queues.py`, `schedules.py`, `dead_letters.py`, `nodes.py`,
`locks.py`, `stats.py`. Who asks for a change, and why, is in `by.py`; what is shown as JSON is in
`views.py`.
"""
