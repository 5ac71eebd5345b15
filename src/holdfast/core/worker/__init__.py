"""The rules of worker sync, for both sides of a connection.

`wire` has the messages; `bounds` says which changes of a message can be kept, and `changes` what they mean;
`protocol` numbers and acknowledges messages; `log` is the worker's record of what is not acknowledged yet.
"""
