"""The gateway: the operations of the product over REST and other transports. An internal package:
applications use `holdfast server` and `holdfast.client`.

`operations/` has one function for each operation: authorise, validate, use case, view. `auth/` turns
credentials into principals. Transports (`rest/`) parse, call an operation, and encode. Needs the extra:
pip install 'holdfast[gateway]'.
"""
