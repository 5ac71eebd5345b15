"""Access: tokens, one-use tickets, the audit of acts, and answers that a repeated request gets again.

Promises: a secret is stored as its digest only; an act and its audit row are one transaction; a ticket
opens one connection.
"""
