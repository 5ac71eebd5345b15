"""`holdfast demo`: failures, dependencies, dead letters and a killed worker in about 15 seconds.

`tasks.py` has the handlers and the plan of what is enqueued, `script.py` runs the workers and the steps,
`progress.py` follows the feed, `display.py` shows it, `checks.py` verifies every claim at the end.
"""
