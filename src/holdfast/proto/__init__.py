"""Protocol buffers: the messages of worker sync, and the code that is generated from them.
An internal package."""
