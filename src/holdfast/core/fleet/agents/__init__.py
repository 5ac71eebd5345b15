"""The protocol of agents: messages, offers, results, the journal."""
