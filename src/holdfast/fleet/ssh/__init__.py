"""Hosts without an agent: the server reaches them over SSH and drives them as their agent would.

`channel.py` starts the keeper of `holdfast.agent` on the host, so journal, exit records and output are
there and a command outlives the session. `driver.py` runs the agent's own loop over it. Needs the extra
`holdfast[ssh]`.
"""
