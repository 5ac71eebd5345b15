"""The simulator: the product's own code in virtual time, under faults that a seed draws, judged by laws.

Where things are, from the outside in:

- `campaign` runs many seeds, `shrink` makes a failure small, `timeline` draws it, `scenarios` names parts.
- `swarm` says what a seed means (`Plan`); `world` builds that cluster and lets it live; `faults` breaks it.
- `loop`, `draw`, `clock`, `net`, `disk`, `strand`: time, chance, clocks, messages, the disk, blocking code.
- `server`, `driver`, `bus`: the database behind the network, and how a node reaches it and others.
- `node` is a process through all its lives; `workload`, `own`, `primitives`, `quorum`, `orders/` (with
  `trades`) are what nodes do; `part` and `parts` say how a kind of node joins.
- `record`, `trace`, `outcome`, `recoveries`: what was seen; `checkers/` judge it; `ablations/` turn
  safeguards off.
"""
