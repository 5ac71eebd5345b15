"""The command line: verbs over the embedded queue. An internal package.

`main.py` is the entry point, `tree.py` the table of verbs. Each verb is a function in `commands/`,
`worker/` or `demo/`, imported on use.
"""
