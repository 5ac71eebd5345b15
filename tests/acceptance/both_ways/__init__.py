"""Every verb of the command line on a store and through a gateway of the same store."""
