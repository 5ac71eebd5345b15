"""The execution loop: places orders, reconciles them with the exchange, and watches the risk."""
