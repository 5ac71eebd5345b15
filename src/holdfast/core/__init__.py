"""The rules, as pure functions over plain data. An internal package.

No I/O, no await, no clock, no randomness: `now`, ids and jitter are arguments. Only this package decides
how a task changes. Stores write the change; engines request it.

Start with `task.py` (the noun and its state machine), then `decide.py` (the verbs).
"""
