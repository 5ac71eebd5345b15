"""Jobs: the request, the specification and its digest, the status, equal outputs."""
