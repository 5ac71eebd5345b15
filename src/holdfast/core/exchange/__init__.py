"""The rules of the exchange with offline nodes.

`handshake` compares versions; `item` and `item_wire` read what is pushed; `push` and `push_case` say what it
asks; `conflict` judges it by a table (`verdict`); `strategy` and `merge` join content; `lamport` is the clock
of a project; `offline` is the node's side; `sync_errors` names refusals; `bounds` has those of requests.
"""
