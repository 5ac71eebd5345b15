"""What a user holds: a queue to define tasks on, enqueue into, run and look at.

`queue.py` puts the parts together: `lifecycle.py` (open, start, stop), `produce.py` (enqueue),
`observe.py` (look), `operate.py` (intervene), `dead.py` (dead letters).
"""
