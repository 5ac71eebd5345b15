"""The transactions, each written once for all stores (see `holdfast.store.script`)."""
