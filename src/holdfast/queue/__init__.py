"""What a user holds: a queue to define tasks on, enqueue into, run and look at.

`queue.py` puts the parts together, each a class over the one before: `lifecycle.py` (open, start, stop),
`backpressure.py`, `requests.py` (types), `produce.py` (enqueue), `schedules.py`, `define.py` (handlers),
`observe.py` (look), `operate.py` (intervene), `dead.py` (dead letters).
"""
