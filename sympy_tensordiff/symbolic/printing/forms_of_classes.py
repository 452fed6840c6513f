"""The table from the classes of nodes to their printed forms, registered as the hook `printed_forms`."""

from __future__ import annotations

from functools import cache
from typing import Any

from sympy_tensordiff.symbolic.expressions import hooks
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import NamedTensor, TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.printing.entry_printing import EntryForms
from sympy_tensordiff.symbolic.printing.printed_forms import (
    ComprehensionForms,
    MarkedVariable,
    MarkedVariableForms,
    NamedTensorForms,
    PrintedForms,
    SymbolForms,
)
from sympy_tensordiff.symbolic.printing.reduction_printing import ExtremumForms, ProductForms, SumForms
from sympy_tensordiff.symbolic.printing.scan_printing import ScanForms, ScanVariableForms
from sympy_tensordiff.symbolic.printing.tensor_printing import TensorForms
from sympy_tensordiff.symbolic.recurrences.scans import Scan, ScanVariable
from sympy_tensordiff.symbolic.whole_tensors.operations import TensorOperation

FORMS: dict[type, type[PrintedForms]] = {
    TensorSymbol: SymbolForms,
    NamedTensor: NamedTensorForms,
    ScanVariable: ScanVariableForms,
    MarkedVariable: MarkedVariableForms,
    TensorEntry: EntryForms,
    TensorComprehension: ComprehensionForms,
    IndexedSum: SumForms,
    IndexedProduct: ProductForms,
    IndexedMax: ExtremumForms,
    IndexedMin: ExtremumForms,
    TensorOperation: TensorForms,
    Scan: ScanForms,
}
"""The printed forms of each class of nodes; a class that is not in the table has those of its base class."""


def forms_of(node: Any) -> PrintedForms | None:
    """Return the object that prints ``node`` for all printers, from the table `FORMS` of classes; None if neither the
    node's class nor a base of it is there.
    """
    forms = _forms_of_class(type(node))  # type: ignore[arg-type]  # mypy takes a class for unhashable
    return None if forms is None else forms(node)


@cache
def _forms_of_class(kind: type) -> type[PrintedForms] | None:
    """Return the printed forms of a class of nodes, those of its nearest base class in `FORMS`; None without one."""
    return next((FORMS[base] for base in kind.__mro__ if base in FORMS), None)


hooks.printed_forms.register(forms_of)
