"""`holdfast demo`: a bad day in a quarter of a minute.

`plan.py` says what is enqueued, `tasks.py` what the workers do, `crew.py` runs them in processes of their
own, `play.py` is the plot, `tally.py` follows the feed, `proof.py` checks every claim afterwards.
"""
