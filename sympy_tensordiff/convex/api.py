"""The public function: a function and its domain in, a certificate out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy
from sympy import Dummy, Expr, S

from sympy_tensordiff.convex.affine_parts import Variables
from sympy_tensordiff.convex.certificate import Certificate
from sympy_tensordiff.convex.conditions import ProofTerm, SignUnknown
from sympy_tensordiff.convex.generators import AT_LEAST_ONE
from sympy_tensordiff.convex.matrices import is_symmetric_affine
from sympy_tensordiff.convex.rules import ConvexityRules
from sympy_tensordiff.convex.signs import Signs
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from sympy_tensordiff.functions.table import Interval
from sympy_tensordiff.structure.api import check_variables
from sympy_tensordiff.structure.terms import to_index_notation
from sympy_tensordiff.structure.values import unused_name
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.index_notation.sums import IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorDeterminant, TensorInverse


@explained
def certify_convex(
    f: Any,
    wrt: Any,
    positive: Iterable[Any] = (),
    nonnegative: Iterable[Any] = (),
    bounds: Mapping[Any, tuple[Any, Any]] | None = None,
    concave: bool = False,
) -> Certificate:
    """Return a certificate that the scalar ``f`` is jointly convex (``concave``: concave) in the variables ``wrt``,
    derived from its Hessian. ``positive``, ``nonnegative`` and ``bounds`` declare ranges of variables.

    Parameters
    ----------
    f : Expr
        A scalar in index notation or of whole tensors, with symbolic sizes.
    wrt : TensorSymbol, Symbol or tuple of them
        The variables.
    positive, nonnegative : sequence of TensorSymbol or Symbol
        Variables and parameters whose entries are declared to be positive, or not negative.
    bounds : mapping
        For a variable or parameter the pair of real numbers between which its entries are, ``(0, sympy.pi)``; None for
        no bound.
    concave : bool
        Certify that ``-f`` is convex.

    Returns
    -------
    Certificate
        True if the function is certified. ``terms`` are nonnegative summands of ``v' H v``; ``check()`` compares them
        with the Hessian; ``reason`` names the scalar whose sign is unknown.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If ``f`` is not a scalar, ``wrt`` or a declared domain is not one.

    Notes
    -----
    "Not certified" is not "not convex". The domain is the declared one, together with the declarations of the tensors
    (``positive=True`` of a matrix: positive definite), positive SymPy symbols, and where logarithms and roots of affine
    or concave scalars have a value; for `logdet` of an affine matrix, where the matrix is positive definite. At the
    boundary of the domain the certificate speaks for limits: a function that is continuous there is convex there as
    well.

    The second derivative of a composition ``g(a, s)`` of affine parts and inner scalars is ``d' G d`` plus the slopes
    times the second derivatives of the inner scalars; sums of squares, a bound of Cauchy and Schwarz, Gram forms, and
    convex calculus for maxima, absolute values and pieces give the terms. Signs of scalars are proved by exact algebra.

    References
    ----------
    J. Klaus, N. Merk, K. Wiedom, S. Laue, J. Giesen, *Convexity Certificates from Hessians*, NeurIPS 2022.

    P. G. Rump, N. Merk, J. Klaus, M. Wenig, J. Giesen, *Convexity Certificates for Symbolic Tensor Expressions*,
    IJCAI 2024.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, m = td.indices("n m")
    >>> X, y, w = td.TensorSymbol("X", (n, m)), td.TensorSymbol("y", n), td.TensorSymbol("w", m)
    >>> c = td.certify_convex(td.sum(td.log(1 + td.exp(-y * (X @ w)))), w)
    >>> bool(c), c.check()
    (True, True)
    >>> td.certify_convex(td.sum(w**3), w)
    not certified convex: no sign of 6*w[i]: a pivot of the matrix of second derivatives is not negative
    >>> bool(td.certify_convex(td.sum(w**3), w, nonnegative=(w,)))
    True
    """
    variables = check_variables(wrt)
    ranges = _declared_ranges(positive, nonnegative, bounds or {})
    function = to_index_notation(as_expr(f, "the function"))
    if getattr(function, "shape", ()):
        raise ArgumentError(f"{f} has the shape {tuple(function.shape)}: convexity is that of a scalar, sum it first")
    tensors = {*function.atoms(TensorSymbol), *(v for v in variables if isinstance(v, TensorSymbol))}
    sizes = {extent for tensor in tensors for extent in tensor.shape if isinstance(extent, sympy.Symbol)}
    signs = Signs({**dict.fromkeys(sizes, AT_LEAST_ONE), **ranges})
    directions = _directions(variables, function)
    scalar, matrices = _replace_determinants(_remove_products_and_absolute_values(function, signs), variables)
    moving = [symbol for symbol, matrix in matrices.items() if not matrix.free_symbols.isdisjoint(variables)]
    dependence = Variables(variables, moving)
    rules = ConvexityRules(signs, dependence, directions, matrices)
    terms: list[ProofTerm] | None = None
    reason = ""
    parts = {symbol: sympy.log(TensorDeterminant(matrix)) for symbol, matrix in matrices.items()}
    try:
        terms = [_restore_determinants(term, parts) for term in rules.terms(scalar, -1 if concave else 1)]
    except SignUnknown as failure:
        reason = str(failure.with_parts(parts))
    except UnsupportedError as failure:
        reason = str(failure)
    return Certificate(function, f, directions, ranges, terms, reason, concave)


def _declared_ranges(positive: Any, nonnegative: Any, bounds: Mapping[Any, Any]) -> dict[Any, Interval]:
    """Return a dictionary from symbols to the open intervals that the user declared. Raise an error if a declaration is
    not an interval of a symbol.

    The intervals are those above 0 for symbols in ``positive`` and ``nonnegative``; ``bounds`` maps symbols to pairs
    ``(low, high)``.
    """
    found: dict[Any, Interval] = {}
    lists = [(v, (0, None)) for given in (positive, nonnegative) for v in _as_tuple(given)]
    for symbol, pair in [*lists, *bounds.items()]:
        if not isinstance(symbol, TensorSymbol | sympy.Symbol):
            raise ArgumentTypeError(f"the domain of {symbol} is declared: declare that of a tensor symbol or a symbol")
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ArgumentTypeError(f"bounds of {symbol} are {pair}: give a pair (low, high), None for no bound")
        low, high = (_to_real_bound(symbol, end) for end in pair)
        declared = found.get(symbol, Interval())
        low = max((end for end in (low, declared.low) if end is not None), default=None)
        high = min((end for end in (high, declared.high) if end is not None), default=None)
        if low is not None and high is not None and low >= high:
            raise ArgumentError(f"the domain of {symbol} from {low} to {high} has no interior: substitute its value")
        found[symbol] = Interval(low, high)
    return found


def _as_tuple(given: Any) -> tuple[Any, ...]:
    """Return ``given``, one symbol or a sequence of symbols, as a tuple."""
    return (given,) if isinstance(given, sympy.Basic) and not isinstance(given, sympy.Tuple) else tuple(given)


def _to_real_bound(symbol: Any, end: Any) -> Expr | None:
    """Return ``end``, a bound of ``symbol``, as an exact real number, or None if it is infinite or None; raise
    `ArgumentTypeError` for any other value.
    """
    if end is None or end in (S.Infinity, -S.Infinity):
        return None
    number = sympy.nsimplify(end, rational=True) if isinstance(end, float) else sympy.sympify(end)
    if not (number.is_number and number.is_real):
        raise ArgumentTypeError(f"a bound of {symbol} is {end}: give a real number, or None for no bound")
    return number


def _directions(variables: tuple[Any, ...], function: Expr) -> dict[Any, Any]:
    """Return a dictionary from each variable to its direction ``v`` in ``v' H v``: a new tensor or symbol of the same
    shape, with a name that ``function`` does not contain.
    """
    found: dict[Any, Any] = {}
    for variable in variables:
        name = unused_name(f"v_{variable.name}", [function, *found.values()])
        if isinstance(variable, TensorSymbol):
            found[variable] = TensorSymbol(name, variable.shape, symmetric=variable.symmetric)
        else:
            found[variable] = sympy.Symbol(name, real=True)
    return found


def _remove_products_and_absolute_values(function: Expr, signs: Signs) -> Expr:
    """Rewrite products over an index with positive factors as ``exp`` of a sum of logarithms, and ``Abs(a)`` as ``a``
    or ``-a`` if the sign of a is known.
    """

    def rewritten(node: Expr) -> Expr:
        """Return `node` in a form whose convexity is simpler to prove: a product over an index with positive factors as
        ``exp`` of a sum of logarithms, and ``Abs(a)`` as ``a`` or ``-a`` if the sign of ``a`` is known. Other nodes are
        unchanged.
        """
        inner, sign = node.args[0], signs.of(node.args[0])
        if isinstance(node, IndexedProduct):
            return sympy.exp(IndexedSum(sympy.log(inner), *node.args[1:])) if sign == ">" else node
        return node if sign is None else -inner if sign[0] == "<" else inner

    return function.replace(lambda node: isinstance(node, IndexedProduct | sympy.Abs), rewritten)


def _replace_determinants(function: Expr, variables: Sequence[Any]) -> tuple[Expr, dict[Expr, Any]]:
    """Replace ``det(M)`` of positive definite matrices by ``exp(t)``, so that ``t`` is ``log(det(M))``. Return the
    function and a dictionary from ``t`` to ``M``.

    The logarithm of the determinant of another symmetric matrix that is affine in the variables restricts the domain
    to where the matrix is positive definite.
    """
    matrices: dict[Expr, Any] = {}
    symbols: dict[Any, Expr] = {}
    names: dict[Expr, Expr] = {}

    def logarithm(matrix: Any) -> Expr:
        """Return the symbol that represents ``log(det(matrix))``, the same one at each call for equal matrices. If
        ``matrix`` is ``inv(A)``, return minus the symbol of ``A``.
        """
        if isinstance(matrix, TensorInverse):
            return -logarithm(matrix.args[0])
        if matrix not in symbols:
            symbols[matrix] = Dummy("logdet", real=True)
            matrices[symbols[matrix]] = matrix
        return symbols[matrix]

    dependence = Variables(variables)
    for node in sorted(function.atoms(TensorDeterminant), key=str):
        matrix = node.args[0]
        inner = matrix.args[0] if isinstance(matrix, TensorInverse) else matrix
        if isinstance(inner, TensorSymbol) and inner.positive:
            names[node] = sympy.exp(logarithm(matrix))
        elif is_symmetric_affine(dependence, inner):
            names[sympy.log(node)] = logarithm(matrix)
    return function.xreplace(names), matrices


def _restore_determinants(term: ProofTerm, parts: Mapping[Expr, Expr]) -> ProofTerm:
    """Return the proof term ``term`` with symbols replaced by the log-determinants that they represent; ``parts`` maps
    each symbol to its log-determinant.
    """
    if not parts:
        return term
    facts = tuple((scalar.xreplace(dict(parts)), sign) for scalar, sign in term.facts)
    return ProofTerm(
        term.rule, term.form.xreplace(dict(parts)), tuple(f.xreplace(dict(parts)) for f in term.factors), facts
    )
