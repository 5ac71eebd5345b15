"""The simulator: the product's code in virtual time, under faults drawn from a seed, checked against laws.
An internal package: applications use `holdfast simulate` or `holdfast.testing`.

Modules, from the outside in:

- `campaign` runs many seeds, `shrink` minimizes a failure, `timeline` draws it, `scenarios` are named plans.
- `swarm` draws a `Plan` from a seed; `world` builds that cluster and runs it; `faults` injects faults.
- `loop`, `draw`, `clock`, `net`, `disk`, `blocking_thread`: time, random numbers, clocks, messages, the
  database's disk, blocking code.
- `server`, `driver`, `bus`: the database behind the network, and how a node reaches it and other nodes.
- `node` is a process with its restarts; `workload`, `handler_outcomes`, `user_handlers`, `primitives`,
  `quorum` and `orders/` are the work of nodes; `subsystem` and `subsystems` add further kinds of nodes.
- `record`, `trace`, `observer`, `outcome`, `recoveries`: observations; `checkers/` evaluate them.
"""
