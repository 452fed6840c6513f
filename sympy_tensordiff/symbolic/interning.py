"""Equal nodes are one object, so that comparing them never walks what lies below.

A table with weak values holds every node that is alive. Native SymPy nodes between ours are
compared by SymPy, which stops at the first of ours; so deep and heavily shared expressions
compare, hash and serve as keys in constant time and without recursion.
"""

from __future__ import annotations

from threading import RLock
from typing import Any
from weakref import WeakValueDictionary

from sympy import Expr

_table: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
# Collecting garbage while the lock is held may lead back here.
_lock = RLock()


def interned(cls: Any, args: tuple[Any, ...]) -> Any:
    """The node of class ``cls`` with these arguments: the one that is alive, or a new one."""
    key = (cls, *args)
    with _lock:
        node = _table.get(key)
        if node is None:
            node = Expr.__new__(cls, *args)
            hash(node)  # the arguments have theirs already
            _table[key] = node
    return node
