"""`holdfast demo`: failures, dependencies, dead letters and a killed worker; then one command on 1,000 hosts.

`tasks.py` has the handlers and the plan of what is enqueued, `script.py` runs the workers and the steps,
`progress.py` follows the feed, `display.py` shows it, `checks.py` verifies every claim at the end. `fleet.py`
runs the part with the hosts, `fleet_checks.py` has its claims.
"""
