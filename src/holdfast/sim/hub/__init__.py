"""Gateways and their clients as nodes of the simulator.

The server's parts and the client's are the shipped code; the transports below them are replaced:

- `sockets` are connections over the simulated network; `asgi` serves them with the gateway's own routes.
- `gateway` is a gateway process; `remote_worker`, `watcher`, `offline` and `operator` are its clients.
- `cast` builds them for a plan; `sim.hub_history` has what the checkers read.
"""
