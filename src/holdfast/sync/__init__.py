"""The use cases of the sync hub: tokens, nodes, the exchange with offline nodes, claims by id.
An internal package."""
