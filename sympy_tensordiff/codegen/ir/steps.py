"""Library calls on whole arrays: their laws, their descriptions, and contractions as loop nests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from sympy_tensordiff.codegen.ir.loops import (
    Loop,
    Set,
    Statement,
    accumulator,
    add,
    is_accumulator,
    is_addition,
    is_scatter,
    reduction_of,
)
from sympy_tensordiff.codegen.ir.programs import (
    BLOCK,
    Apply,
    CofactorTangent,
    ContractionStep,
    Correlation,
    FusedKernels,
    Kernel,
    Operand,
    ProductStep,
    Program,
    Recurrence,
    Scatter,
    Solve,
    Step,
    Trapezoid,
    entrywise,
)
from sympy_tensordiff.codegen.ir.rename import unique
from sympy_tensordiff.codegen.ir.scalars import Bound, Load, Name, Number, Operation, Scalar
from sympy_tensordiff.codegen.ir.walk import array_shapes, loops, outer_names, statements
from sympy_tensordiff.errors import VerificationError
from sympy_tensordiff.integer.affine import Affine

Shapes = Mapping[str, tuple[Affine, ...]]

_LETTERS = "ijklmnopqrstuvwxyzabcdefgh"


def uncompiled_arrays(program: Program, recurrences: bool = False) -> list[str]:
    """Return the names of the arrays that `program` fills by steps that Numba cannot compile, for which Python calls a
    library. With ``recurrences``, recurrences that LLVM can compile are left out, too.
    """
    return [
        step.array
        for step in program.kernels
        if not isinstance(step, _COMPILED)
        and not (
            isinstance(step, Recurrence)
            and (is_compiled_step(step) if recurrences else not uncompiled_arrays(step.body))
        )
    ]


_COMPILED = Kernel | FusedKernels | ContractionStep | Trapezoid | Correlation


def is_compiled_step(step: Step) -> bool:
    """Return whether LLVM can compile a step. It cannot compile cofactors and Cholesky factors, nor a recurrence with
    such a step.
    """
    if isinstance(step, Recurrence):
        return all(map(is_compiled_step, step.body.kernels))
    return isinstance(step, _COMPILED | Solve) or (
        isinstance(step, Apply) and step.function != "cofactor" and step.options != (2,)
    )


def is_compiled_whole(program: Program) -> bool:
    """Return whether Numba compiles all steps of a program together, as one function. It does if there are several
    steps, or a correlation or recurrence, and Numba can compile all of them.
    """
    has_several = len(program.kernels) > 1 or any(
        isinstance(step, Correlation | Recurrence) for step in program.kernels
    )
    return has_several and not uncompiled_arrays(program)


def extents(step: ProductStep, shapes: Shapes) -> dict[int, Affine]:
    """Return a dictionary from the labels of a contraction step to their extents. ``shapes`` maps arrays to shapes."""
    found: dict[int, Affine] = {}
    for operand in step.operands:
        shape = shapes[operand.array]
        if isinstance(step, Solve) and step.factored and operand is step.left:
            shape = (*shape[:-2], shape[-1], shape[-1])
        found.update(zip(operand.labels, shape, strict=True))
    return found


def in_views(step: ContractionStep, shapes: Shapes, fresh: Callable[[str], str]) -> Correlation:
    """Return the contraction ``step`` as a `Correlation`: each label becomes a variable, whose name ``fresh`` makes,
    and each operand a read such as ``a[i, k]``.
    """
    known = dict(sorted(extents(step, shapes).items()))
    names = {label: fresh(f"i{label}") for label in known}
    parts = ((step.array, step.output), *((operand.array, operand.labels) for operand in step.operands))
    output, left, right = (Load(array, tuple([Affine.variable(names[n]) for n in axes])) for array, axes in parts)
    labels = tuple([(names[label], extent) for label, extent in known.items()])
    return Correlation(output, left, right, labels, step.factor)


def describe(step: Step, shapes: Shapes) -> str:
    """Return the line of ``.plan`` that describes the library call ``step``. ``shapes`` maps arrays to their shapes."""
    if isinstance(step, Apply) and step.function == "factors":
        how = ("triangular factors", "factors (Cholesky's where there are such)", "Cholesky factors")[step.options[0]]
        lengths = [_form_as_factor(extent) for extent in (*shapes[step.operand], shapes[step.operand][-1])]
        return f"fill {step.array} = {how} of {step.operand}: {'*'.join(lengths)}/3 products"
    if isinstance(step, Recurrence):
        recorded = ", ".join(f"{one.array} ({one.kind})" for one in step.recorded)
        order = "backwards" if step.is_reversed else "one after the other"
        return (
            f"fill {recorded} in {_form_as_factor(step.length)} steps, {order}: {len(step.body.kernels)} kernels each"
        )
    if isinstance(step, Apply):
        operand = f"{step.factored} by {step.operand}" if step.factored else step.operand
        options = "".join(f", {option}" for option in step.options)
        axes = f", its axes in the order {step.axes}" if step.axes else ""
        return f"fill {step.array} = {_factor_text(step)}{step.function}({operand}{options}){axes}"
    assert not isinstance(step, Kernel | FusedKernels)
    if isinstance(step, Correlation):
        target, *factors = (f"{view.array}[{', '.join(map(str, view.index))}]" for view in step.views)
        work = "*".join(_form_as_factor(extent) for _, extent in step.labels)
        return f"fill {step.array}: to {target} add {_factor_text(step)}{'*'.join(factors)}: {work} products"
    known = extents(step, shapes)
    letters = {label: _LETTERS[n % len(_LETTERS)] for n, label in enumerate(sorted(known))}
    texts = [f"{op.array}[{', '.join(letters[label] for label in op.labels)}]" for op in step.operands]
    if isinstance(step, Solve):
        texts[0] = f"inv({step.factored or step.left.array})" + texts[0][len(step.left.array) :]
    axes = ", ".join(letters[label] for label in step.output)
    if isinstance(step, CofactorTangent):
        length = _form_as_factor(known[step.output[0]])
        what = f"{_factor_text(step)}cofactors of {texts[0]} in the direction {texts[1]}"
        return f"fill {step.array}[{axes}] = {what}: 5*{length}*{length}*{length} products"
    work = "*".join(_form_as_factor(extent) for _, extent in sorted(known.items()))
    how = ""
    if isinstance(step, Trapezoid):
        part = "from" if step.is_upper else "up to"
        term, here = letters[step.summed], Affine.variable(letters[step.row])
        how, work = f" for {term} {part} {here + step.shift}, in blocks of {BLOCK} rows", f"{work}/2"
    if isinstance(step, Solve):
        *batch, row, column = [_form_as_factor(known[label]) for label in step.left.labels]
        how, work = " by solving equations", f"{'*'.join([*batch, row, row, column])}/3 + {work}"
        if step.factored:
            how, work = f" by {step.left.array}", work.partition(" + ")[2]
    return f"fill {step.array}[{axes}] = {_factor_text(step)}sum of {'*'.join(texts)}{how}: {work} products"


def describe_scatter(step: Scatter, backend: str) -> str:
    """Return the description of a scatter, a line of ``.plan``: its entries, loops and order."""
    places = dict.fromkeys(s.index for s in statements(step.body) if is_scatter(s))
    texts = [f"{step.array}[{', '.join(map(str, index))}]" for index in places]
    over = [*step.axes, *dict.fromkeys(loop.variable for loop in loops(step.body))]
    if step.exclusive:
        return f"diagonal: add to {', '.join(texts)} over {', '.join(over) or 'one point'}"
    how = "atomic, in any order" if backend == "cuda" else "one after the other, in order"
    task = {"sum": "add to"}.get(step.reduction, f"{step.reduction}imum in")
    return f"scatter: {task} {', '.join(texts)} over {', '.join(over)} ({how})"


def describe_kernel(kernel: Kernel) -> str:
    """Return the text of the array entry that a kernel fills, such as ``y[i, j]``."""
    return f"{kernel.array}[{', '.join(kernel.axes)}]" if kernel.axes else kernel.array


def describe_fused(step: FusedKernels) -> str:
    """Return the description of fused kernels, a line of ``.plan``."""
    texts = list(map(describe_kernel, step.kernels))
    rows = f", of {', '.join(array.name for array in step.rows)} one row" if step.rows else ""
    return f"together for each {', '.join(step.axes)}: fill {', '.join(texts)}{rows}"


def _factor_text(step: ProductStep | Correlation | Apply) -> str:
    """Return the numeric factor of a step as text to put in front of a product: "" for 1, "-" for -1, ``2*`` for 2."""
    if step.factor in (1, -1):
        return "" if step.factor == 1 else "-"
    return f"{step.factor}*"


def _form_as_factor(form: Affine) -> str:
    """Return a form as text, in parentheses if it has several terms."""
    return str(form) if len(form.terms) + bool(form.constant) < 2 else f"({form})"


# ---------------------------------------------------------------------------- laws


def check_step(step: ProductStep | Apply, shapes: Shapes, shape: tuple[Affine, ...]) -> None:
    """Raise VerificationError if a library call does not match its arrays; ``shape`` is the shape of the array that the
    call fills.
    """
    where = f"{type(step).__name__} {step.array}"
    if isinstance(step, Apply):
        found = _apply_shape(step, shapes[step.operand], where)
    else:
        found = _product_shape(step, shapes, where)
    if found != shape:
        raise VerificationError(f"{where}: the result has shape {found}, the array {shape}")


def _product_shape(step: ProductStep, shapes: Shapes, where: str) -> tuple[Affine, ...]:
    """Return the shape of the result of a product; raise VerificationError, with `where` in the message, if its labels
    and shapes do not match.
    """
    known: dict[int, Affine] = {}
    if isinstance(step, Solve) and step.factored:
        shapes = {**shapes, step.left.array: _matrix_of(shapes[step.left.array], where)}
    for operand in step.operands:
        if len(operand.labels) != len(shapes[operand.array]):
            raise VerificationError(f"{where}: {len(operand.labels)} labels for the axes of {operand.array}")
        for label, extent in zip(operand.labels, shapes[operand.array], strict=True):
            if known.setdefault(label, extent) != extent:
                raise VerificationError(f"{where}: a label has the extents {known[label]} and {extent}")
    left, right = (set(operand.labels) for operand in step.operands)
    output = set(step.output)
    if len(output) != len(step.output) or not output <= known.keys() or not (left ^ right) <= output:
        raise VerificationError(f"{where}: the labels {step.output} are not an output of {left} and {right}")
    if isinstance(step, Solve):
        matrix = shapes[step.left.array]
        own, batch = set(step.left.labels[-2:]), set(step.left.labels[:-2])
        fits = len(own) == 2 and batch <= right & output and not batch & own
        if not fits or not _is_square(matrix) or len(own & right) != 1 or own <= output:
            raise VerificationError(f"{where}: one axis of a square matrix is summed over")
    if isinstance(step, Trapezoid):
        summed = known.keys() - output
        if len(summed) != 1 or step.row not in output or step.row in right or step.row not in left:
            raise VerificationError(f"{where}: one label is summed over, and the rows are those of {step.left.array}")
    if isinstance(step, CofactorTangent) and not (left == right == output and _is_square(shapes[step.left.array])):
        raise VerificationError(f"{where}: two square matrices are needed, under the labels {step.output}")
    return tuple([known[label] for label in step.output])


def _apply_shape(step: Apply, shape: tuple[Affine, ...], where: str) -> tuple[Affine, ...]:
    """Return the shape of the result of ``step``, a function of one array of the shape ``shape``. Raise
    VerificationError, which begins with ``where``, if the function is not defined for the shape.
    """
    shape = _matrix_of(shape, where) if step.factored else shape
    if not _is_square(shape):
        raise VerificationError(f"{where}: a square matrix is needed, not an array of shape {shape}")
    batch, matrix = shape[:-2], shape[-2:]
    results = {"inv": shape, "cofactor": batch + matrix * sum(step.options)}
    results |= dict.fromkeys(("det", "logdet", "logabsdet"), batch)
    results["factors"] = *batch, shape[-1] + 1, shape[-1]
    if step.function not in results:
        raise VerificationError(f"{where}: no library call is named {step.function!r}")
    found = results[step.function]
    if step.axes and sorted(step.axes) != list(range(len(found))):
        raise VerificationError(f"{where}: {step.axes} is not an order of {len(found)} axes")
    return tuple([found[axis] for axis in step.axes]) if step.axes else found


def _matrix_of(shape: tuple[Affine, ...], where: str) -> tuple[Affine, ...]:
    """Return the shape of the matrices whose triangular factors (LU or Cholesky) an array of this `shape` stores, one
    row less: the last row has the row exchanges. Raise VerificationError, with a message that begins with ``where``, if
    the array cannot store factors.
    """
    if len(shape) < 2 or shape[-2] != shape[-1] + 1:
        raise VerificationError(f"{where}: an array of shape {shape} does not hold factors")
    return *shape[:-2], shape[-1], shape[-1]


def _is_square(shape: tuple[Affine, ...]) -> bool:
    """Return whether the last two axes of a shape are equal."""
    return len(shape) >= 2 and shape[-2] == shape[-1]


def check_recurrence(step: Recurrence, shapes: Shapes) -> None:
    """Raise VerificationError if the arrays of a recurrence, whose ``shapes`` are given, do not match the arguments and
    results of its time step.
    """
    forms = dict(step.integers)

    def over(shape: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """Return the `shape` of an array of a time step with its sizes replaced by their values in the enclosing
        program (the dictionary ``forms``).
        """
        return tuple([form.substitute(forms) for form in shape])

    given = {a.name: over(a.shape) for a in step.body.arguments}
    results = {a.name: over(a.shape) for a in step.body.outputs}
    one = (Affine.of(1),)
    pairs = [(state.initial, given[state.argument] or one) for state in step.carried]
    pairs += [(array, (step.length, *given[name])) for name, array in step.rows]
    pairs += [(array, given[name] or one) for name, array in step.constants]
    for record in step.recorded:
        own = results[record.result]
        pairs.append((record.array, (step.length, *own) if record.kind == "stack" else own))
    pairs += [(state.initial, results[state.result] or one) for state in step.carried]
    for array, shape in pairs:
        if shapes[array] != shape:
            raise VerificationError(f"Recurrence {step.array}: {array} has shape {shapes[array]}, not {shape}")


# ---------------------------------------------------------------------------- contractions as loop nests
# Contractions as loop nests, for backends without a library.


def calls_in_loops(program: Program) -> Program:
    """Return the program with each contraction written as a kernel with loops instead of a library call."""
    shapes, taken = array_shapes(program), outer_names(program)
    steps = [
        _contraction_kernel(s, shapes, taken) if isinstance(s, ContractionStep | Trapezoid) else s
        for s in program.kernels
    ]
    return replace(program, kernels=tuple(steps))


def lower_vector_products(program: Program) -> Program:
    """Return a program with kernels in place of contractions other than matrix products, such as vector products."""
    pairs = zip(program.kernels, calls_in_loops(program).kernels, strict=True)
    return replace(program, kernels=tuple([step if is_product(step) else loops for step, loops in pairs]))


def is_product(step: Step) -> bool:
    """Return whether a step is a matrix product with rows, columns and terms, or a correlation."""
    if not isinstance(step, ContractionStep):
        return isinstance(step, Correlation)
    left, right, out = set(step.left.labels), set(step.right.labels), set(step.output)
    return bool(left & out - right and right & out - left and left & right - out)


def _contraction_kernel(step: ContractionStep | Trapezoid, shapes: Shapes, taken: set[str]) -> Kernel:
    """Return the contraction ``step`` as a kernel with a loop over each summed label; for a `Trapezoid`, only over the
    terms that all rows of a block have. ``taken`` are names in use.
    """
    known = extents(step, shapes)
    summed = [label for label in sorted(known) if label not in step.output]
    own: set[str] = set()
    names: dict[int, str] = {}
    for letter, labels in (("i", step.output), ("k", summed)):
        for n, label in enumerate(labels):
            names[label] = unique(f"{letter}{n}", taken, own)
            own.add(names[label])
    total = unique("s", taken, own)
    # The operand with the rows comes first, so that exchanged operands give the same function.
    operands = sorted(step.operands, key=lambda operand: [label not in operand.labels for label in step.output])
    loads = [Load(one.array, tuple([Affine.variable(names[label]) for label in one.labels])) for one in operands]
    inner: Statement = add(total, Operation("mul", tuple(loads)))
    for label in reversed(summed):
        lows, highs = [Bound(Affine.of(0))], [Bound(known[label] - 1)]
        if isinstance(step, Trapezoid):
            (lows if step.is_upper else highs).append(Bound(step.end(Affine.variable(names[step.row]))))
        inner = Loop(names[label], tuple(lows), tuple(highs), (inner,))
    value: Scalar = Name(total)
    if step.factor != 1:
        value = Operation("mul", (Number(step.factor), value))
    return entrywise(step.array, [names[label] for label in step.output], [accumulator(total), inner], value)


def as_product(kernel: Kernel, shapes: Shapes) -> ContractionStep | None:
    """Return the contraction that replaces a kernel, if it computes a matrix product ``y[i, k] = sum(A[i, j]*B[j, k],
    j)`` of whole arrays by loops; None for other kernels.
    """
    if type(kernel) is not Kernel or len(kernel.body) != 3:
        return None
    start, inner, store = kernel.body
    names = dict(zip(kernel.axes, shapes[kernel.array], strict=True))
    while isinstance(inner, Loop) and len(inner.body) == 1:
        if inner.lows != (Bound(Affine()),) or len(inner.highs) > 1 or inner.highs[0].divisor != 1 or inner.step != 1:
            return None
        names[inner.variable] = inner.highs[0].form + 1
        (inner,) = inner.body
    if not (is_accumulator(start) and is_addition(inner) and isinstance(start, Set) and isinstance(store, Set)):
        return None
    factor, value = _number_times(store.value)
    term = inner.value
    loads = term.arguments if isinstance(term, Operation) and term.function == "mul" else ()
    if value != Name(start.name) or reduction_of(inner) != "sum" or len(loads) != 2:
        return None
    labels = {name: number for number, name in enumerate(names)}
    operands = []
    for load in loads:
        if not isinstance(load, Load) or [names.get(str(form)) for form in load.index] != list(shapes[load.array]):
            return None
        operands.append(Operand(load.array, tuple([labels[str(form)] for form in load.index])))
    left, right = operands
    step = ContractionStep(kernel.array, tuple(range(len(kernel.axes))), left, right, factor)
    return step if is_product(step) else None


def _number_times(value: Scalar) -> tuple[int | Fraction | float, Scalar]:
    """Return ``(number, factor)`` whose product is ``value``; the number is 1 unless the product begins with one."""
    if isinstance(value, Operation) and value.function == "mul" and isinstance(value.arguments[0], Number):
        number, *others = value.arguments
        assert isinstance(number, Number)
        return number.value, others[0] if len(others) == 1 else Operation("mul", tuple(others))
    return 1, value
