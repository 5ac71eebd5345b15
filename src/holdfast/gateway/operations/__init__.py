"""The operations of the product, one function each: authorise, validate, use case, view.

Every transport calls these. They take a `Call` (who asks, and how) and plain values, and return an `Answer`.
"""
