"""The transactions of the store, each written once for all dialects (see `holdfast.store.script`)."""
