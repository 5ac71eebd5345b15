"""The campaign of the fleet: 1,000 agents over a bad network, seed by seed."""
