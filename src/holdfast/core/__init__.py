"""The rules, as pure functions over plain data.

No I/O, no await, no clock, no randomness: `now`, ids and jitter are arguments. What happens next to a
task is computed here and nowhere else; stores write it, engines ask for it.

Start with `task.py` (the noun and its state machine), then `decide.py` (the verbs).
"""
