"""The command line: verbs over the embedded queue.

`main.py` is the entry, `tree.py` the one table of verbs; each verb is a function in `commands/`,
`worker/` or `demo/` that is imported only when it is asked for.
"""
