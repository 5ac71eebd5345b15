"""The agent: the program that runs commands on one host of the fleet.

It speaks to a gateway (`http.py`), keeps what it has promised on the disk (`journal.py`), and starts commands
under a supervisor that outlives it (`supervisor.py`). `agent.py` is the loop over these ports, so the same
class runs on a real host, over SSH and in a simulation.
An internal package: its program is `holdfast agent`.
It ships without the server: it imports only `core`, `client`, `clock` and `errors`.
"""
