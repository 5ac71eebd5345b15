"""The server's side of the agent protocol: enrolment, starts, syncs, offers, slots, output.

The rules are in `holdfast.core.fleet` (`agent_rules`, `offer_rules`); the statements of this package are in
`statements/`. Promises: any number of agents share a transaction, with a number of statements that does not
depend on how many they are.
"""
