"""The execution loop: places orders, keeps them in step with the exchange, watches the risk."""
