"""The order store and the execution loop under simulation, with an exchange across the network."""
