"""The search grammar `q`: one language for lists in the API, the command line and the pages.

    status:failed,stuck type:email.* age:>1h (attempt:>=3 OR error:~"refused") -queue:low sort:-created

`parse` turns text into a tree, `show` turns the tree into text, `matches` judges one row, `condition` writes
the same judgement as SQL, `needs_scope` says whether an index bounds the search.
Promises: `parse(show(query)) == query`; `matches` and the SQL agree on both databases; values reach the
database as parameters only. Never: reads a clock. `now` is an argument.
"""

from holdfast.core.search.keys import NAMED, TASK_KEYS, Key, Keys, Kind
from holdfast.core.search.matching import matches
from holdfast.core.search.narrow import narrowed
from holdfast.core.search.parse import QueryError, parse
from holdfast.core.search.scope import NEWEST, SCOPE, needs_scope
from holdfast.core.search.show import show
from holdfast.core.search.sql import Condition, SqlDialect, condition, order_by, rows_after
from holdfast.core.search.tree import Query

__all__ = [
    "NAMED",
    "NEWEST",
    "SCOPE",
    "TASK_KEYS",
    "Condition",
    "Key",
    "Keys",
    "Kind",
    "Query",
    "QueryError",
    "SqlDialect",
    "condition",
    "matches",
    "narrowed",
    "needs_scope",
    "order_by",
    "parse",
    "rows_after",
    "show",
]
