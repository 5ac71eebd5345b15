"""The sync hub: nodes, exchange, interventions, decisions, access. Use cases over the store."""
