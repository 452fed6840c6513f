"""From expressions to a `Program`: read, define arrays, lower each of them, verify."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from sympy_tensordiff.codegen.ir import programs
from sympy_tensordiff.codegen.ir.dataflow import uses
from sympy_tensordiff.codegen.ir.facts import Prover
from sympy_tensordiff.codegen.ir.programs import Argument, Check, Program
from sympy_tensordiff.codegen.ir.rename import unique
from sympy_tensordiff.codegen.ir.sizes import Sizes, check_determined, solve_sizes
from sympy_tensordiff.codegen.ir.verify import verify, with_masks
from sympy_tensordiff.codegen.ir.work import nominal_work
from sympy_tensordiff.codegen.lower.accurate_entries import with_accurate_entries
from sympy_tensordiff.codegen.lower.call_checks import Names, checks_of_reads
from sympy_tensordiff.codegen.lower.carries import repeated_carries, with_running_sums
from sympy_tensordiff.codegen.lower.compared_values import with_compared_values
from sympy_tensordiff.codegen.lower.data_tests import with_tests_as_choices
from sympy_tensordiff.codegen.lower.exponentials import without_large_exponentials
from sympy_tensordiff.codegen.lower.factored_sums import factored_sums
from sympy_tensordiff.codegen.lower.groupings import with_common_groupings
from sympy_tensordiff.codegen.lower.lower import Lowering
from sympy_tensordiff.codegen.lower.plan import StorageCandidate
from sympy_tensordiff.codegen.lower.recurrences import checks_of_steps, over_forms, ranges_of_data, recurrence
from sympy_tensordiff.codegen.lower.scatters import extrema_over_segments, with_sorted_selections
from sympy_tensordiff.codegen.lower.separated_sums import separated_sums
from sympy_tensordiff.codegen.lower.sums import (
    joined_sums,
    nested_around_known_sums,
    numbered,
    ordered_sums,
    with_coprime_terms,
)
from sympy_tensordiff.codegen.lower.sums_by_value import sums_by_value
from sympy_tensordiff.codegen.lower.tensor_exponentials import without_large_tensors
from sympy_tensordiff.codegen.lower.tensors import Definition, define_arrays
from sympy_tensordiff.codegen.lower.terms import (
    defined_at_zero,
    expanded,
    repeated_calls,
    repeated_choices,
    repeated_sums,
    with_expanded_diagonals,
    with_sums_split_by_index_order,
)
from sympy_tensordiff.codegen.run.results import SINGLE, flatten
from sympy_tensordiff.codegen.run.signature import (
    check_complete,
    check_functions,
    expected_sizes,
    extents_of_argument,
    over_names,
    read_arguments,
)
from sympy_tensordiff.codegen.schedule.copies import eliminate_dead_steps, without_aliases, without_copies
from sympy_tensordiff.codegen.schedule.fusion import fuse
from sympy_tensordiff.codegen.schedule.passes import prepared
from sympy_tensordiff.codegen.schedule.symmetric_pairs import with_packed_pairs
from sympy_tensordiff.codegen.schedule.tables import with_tables
from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError, OutOfShapeError
from sympy_tensordiff.graph.contraction_order import Hints
from sympy_tensordiff.graph.interning import no_collection
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.integer.affine import Affine, Constraint
from sympy_tensordiff.integer.extrema import extrema_text
from sympy_tensordiff.simplify.accesses import check_reads
from sympy_tensordiff.simplify.arccosines import with_finite_quotients
from sympy_tensordiff.simplify.bounds import tighten
from sympy_tensordiff.simplify.empty_axes import at_sizes
from sympy_tensordiff.simplify.facts import (
    extents_of,
    input_facts,
    positive_sizes,
    read_with_ranges,
    require_positive_divisors,
    size_variables,
)
from sympy_tensordiff.simplify.log_sums import with_close_log_sums
from sympy_tensordiff.simplify.logistic import without_overflow
from sympy_tensordiff.simplify.recognition import recognise
from sympy_tensordiff.symbolic.conversion.lift import as_operand, lift_native


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a program; ``temporaries``, ``sizes`` and ``expand`` are those of `lambdify`."""

    temporaries: bool = True
    sizes: Mapping[Any, int] | None = None
    expand: bool = False
    library: bool = True
    """Whether sums of products in index notation may become calls of a library for matrices."""
    rows: bool = False
    """Whether kernels run together, and store one row of a value that several of them need."""
    arrays: bool = False
    """Whether every value is an array of a library, so that values that several loops need are stored at no cost."""
    trapezoids: bool = False
    """Whether the library has products over trapezoids."""
    tables: bool = False
    """Whether the backend keeps what depends on no argument from call to call."""
    shares: bool = True
    """Whether values that several loops need may be stored."""
    segments: bool = False
    """Whether calls check that integer data do not decrease, where the program needs that (see `segments`)."""
    norms: bool = False
    """Whether norms are computed again in another scale where their sums of squares overflow or underflow. With
    ``rows``, also whether products of exponentials are computed again where they underflow.

    Not on a GPU, where loops that rarely run would be launched always, nor in libraries that evaluate both branches of
    a choice.
    """
    at: Mapping[str, int] = field(default_factory=dict)
    """The values of sizes, by the names that arguments have, that leave axes without entries."""

    def __post_init__(self) -> None:
        for name in ("temporaries", "expand"):
            if not isinstance(value := getattr(self, name), bool):
                raise ArgumentTypeError(f"{name} must be True or False, not {value!r}")


@dataclass(frozen=True, kw_only=True)
class Task:
    """The input of the compilation: the graph, the nodes to compute, the arguments, their names, and the options. For a
    program that searches for bad indices, ``search`` has the numbers of the failed index checks; otherwise it is empty.
    """

    graph: Graph
    nodes: Sequence[Node]
    structure: str = SINGLE
    arguments: tuple[Argument, ...]
    names: dict[Any, str]
    """Names of the sizes, free indices and scalar arguments: variables and scalar nodes."""
    arrays: dict[str, str]
    """Names of the tensor arguments by the names of the tensors."""
    sizes: frozenset[int]
    """The variables that are sizes."""
    tensors: Sequence[Node] = ()
    """All tensors of the arguments, whose extents are positive, whether the results need them or not."""
    hints: Hints = field(default_factory=Hints)
    options: Options = Options()
    search: Sequence[int] = ()


@no_collection()
def build_program(args: Any, expr: Any, search: Sequence[int] = (), **given: Any) -> Program:
    """Return the verified program that computes ``expr``, an expression or a nested tuple of expressions, from the
    symbols ``args``. ``given`` are fields of `Options`.

    With `search`, the numbers of data checks, the program instead finds the first position of bad data for each of
    them.
    """
    flat, structure = flatten(expr)
    exprs = [as_operand(e, "the expression") for e in flat]
    options, again = Options(**given), partial(build_program, args, expr, **given)
    graph = Graph()
    reader = Reader(graph, scans="node", products=True)
    args = args if isinstance(args, Sequence) else [args]
    reader.use((*exprs, *args))
    nodes = read_with_ranges(reader, exprs)
    check_functions(nodes)
    args = [lift_native(arg, reader.tensors.values()) for arg in args]
    arguments, names, arrays = read_arguments(reader, args)
    check_complete(graph, nodes, names, arrays)
    known_sizes = size_variables([*reader.leaves(), *nodes])
    require_positive_divisors(graph, reader.divisors, [*reader.leaves(), *nodes])
    check_reads(reader, nodes, positive_sizes(graph, [*nodes, *reader.leaves()]))
    for symbol, variable in reader.free.items():
        names.setdefault(variable, unique(str(symbol.name), {*names.values(), *arrays.values()}))
    fixed = {v: Affine.of(options.at[name]) for v, name in names.items() if name in options.at}
    tensors = reader.leaves()
    extents = [extent for extent in extents_of([*nodes, *tensors]) if extent.terms]
    if fixed:
        nodes, tensors = at_sizes(graph, nodes, fixed), at_sizes(graph, tensors, fixed)
    arguments = tuple(
        replace(a, **extents_of_argument(reader, arg, fixed, names)) if a.kind == "array" else a
        for a, arg in zip(arguments, args, strict=True)
    )
    task = Task(
        graph=graph,
        nodes=nodes,
        structure=structure,
        arguments=arguments,
        names=names,
        arrays=arrays,
        sizes=known_sizes,
        tensors=tensors,
        hints=expected_sizes(reader, {} if options.sizes is None else options.sizes),
        options=options,
        search=search,
    )
    program = assemble(task)
    known = [over_names(extent, names) for extent in extents if extent.atoms() <= names.keys()]
    return replace(program, extents=() if fixed else tuple(known), search=again if program.data_checks else None)


def program_at(args: Any, exprs: Any, structure: str, options: Mapping[str, Any], sizes: Sizes) -> Program:
    """Build the program of ``exprs`` again, with the same symbols ``args`` and ``options``, for ``sizes`` at which some
    axis is empty, or for data that decrease where the program needs data that do not. ``structure`` describes the
    nesting of its results.

    Pickles of compiled functions refer to this function.
    """
    try:
        return replace(
            build_program(args, exprs, at=dict(sizes), **{**options, "segments": False}), structure=structure
        )
    except (ArgumentError, OutOfShapeError) as error:
        known = ", ".join(f"{name} = {value}" for name, value in sizes)
        raise type(error)(f"with {known}: {str(error).partition(', whatever')[0]}") from None


def assemble(task: Task) -> Program:
    """Return the program that computes a task, after verification of its loop nests."""
    program = _with_shared_rows(_simplify(task), task.options.rows and task.options.temporaries)
    verify(program)
    return program


def _with_shared_rows(simplified: _Simplified, shares_rows: bool) -> Program:
    """Return the best program for ``simplified``: values that several sums share are stored in arrays or computed
    again, whichever is better. Storing is tried only with ``shares_rows``.

    Up to three programs are built: they store all such values (if ``shares_rows``), only those that can be kept one row
    at a time, or none. The best has the fewest temporaries that grow larger than every array of the program that stores
    none, then the least work.

    Where several arrays store one value, each a part of its range, one array for all of it is better if it takes less
    work and no more memory.
    """
    assembly = _assemble(simplified, shares_rows=shares_rows)
    allowed = assembly
    if shares_rows and assembly.of_rows and assembly.of_rows & {array.name for array in assembly.whole_arrays}:
        least = _assemble(simplified)
        assemblies = [assembly, least]
        if _count_larger(assembly, least):
            assemblies.append(_assemble(simplified, shares_rows=True, only_rows=True))
        allowed = least
        assembly = min(assemblies, key=lambda one: (_count_larger(one, allowed), nominal_work(one.program)))
    if assembly.doubled:
        other = _assemble(simplified, assembly.shares_rows, domains=assembly.doubled)
        if _count_larger(other, allowed) <= _count_larger(assembly, allowed):
            return min(assembly.program, other.program, key=nominal_work)
    return assembly.program


def _count_larger(built: _BuiltProgram, least: _BuiltProgram) -> int:
    """Return how many temporaries of the program ``built`` are larger, if all sizes are large, than every array
    (argument, result or temporary) of the program ``least``.
    """
    allowed = least.program
    shapes = [a.shape for a in allowed.arguments] + [a.shape for a in (*allowed.outputs, *least.whole_arrays)]
    needed = [_growth(shape) for shape in shapes]
    sizes = [_growth(array.shape) for array in built.whole_arrays]
    return sum(not any(size <= other for other in needed) for size in sizes)


def _row_temporaries(program: Program) -> set[str]:
    """Return the names of the temporaries that are stored one row at a time once kernels are fused."""
    program = prepared(program, "numba", splits=False)
    steps = fuse(program, Prover(program)).kernels
    return {array.name for step in steps if isinstance(step, programs.FusedKernels) for array in step.rows}


def _growth(shape: Sequence[Affine]) -> Counter[Affine]:
    """Return the terms with sizes in the extents of an array of this `shape`, each with its number of axes: ``{n: 2}``
    for the shape ``(n, n + 1, 3)``. An array with fewer of them is smaller for large sizes.
    """
    return Counter(extent - extent.constant for extent in shape if not extent.is_constant)


@dataclass(frozen=True, kw_only=True)
class _Simplified:
    """A program in preparation: the definitions of its arrays, with a simplified formula for the entries of each; loop
    nests are made from these.
    """

    task: Task
    program: Program
    """The arguments and the checks of a call."""
    lowering: Lowering
    """The names and facts; it is copied before kernels are added."""
    definitions: Sequence[Definition]
    results: Sequence[str]
    entries: Sequence[Node]
    """The simplified entries of the definitions that have entries, in their order."""
    library: bool


def _simplify(task: Task) -> _Simplified:
    """Return the arrays to compute for `task` with simplified formulas of their entries, and the checks to make at run
    time.
    """
    graph, nodes, arguments, names, arrays = task.graph, task.nodes, task.arguments, task.names, task.arrays
    options, hints, tensors, search, structure = task.options, task.hints, task.tensors, task.search, task.structure
    temporaries = options.temporaries
    taken = {*names.values(), *arrays.values()}
    results: list[str] = []
    for n in range(len(nodes)):
        results.append(unique("result" if structure == SINGLE else f"result{n}", {*taken, *results}))
    nodes = with_common_groupings(graph, with_expanded_diagonals(graph, nodes))
    found = recognise(graph, with_finite_quotients(graph, nodes))
    found = recognise(graph, without_overflow(graph, found, numbers=True))
    found = with_common_groupings(graph, found)  # of sums whose axes have one order now, too
    found = without_large_tensors(graph, with_close_log_sums(graph, found))
    steps = partial(recurrence, build=partial(_step_program, options))
    definitions = define_arrays(graph, found, results, arrays, taken, hints, options.library, steps, options.rows)
    tensors_by_name = {arrays[t.data[0]]: t for t in task.tensors if t.data[0] in arrays}
    definitions = with_accurate_entries(graph, definitions, tensors_by_name, options.norms, taken)
    entries = [definition.entries for definition in definitions if definition.entries is not None]
    arrays = {**arrays, **{definition.array.data[0]: definition.name for definition in definitions}}
    own = [definition.name for definition in definitions]
    expected = hints if options.library and temporaries else None
    known = positive_sizes(graph, [*entries, *tensors])
    facts = input_facts(graph, [*entries, *tensors], known)
    lowering = Lowering(graph, names, arrays, facts, temporaries, reserved=own, hints=expected)
    program = Program(arguments, (), (), (), structure=structure, copies=temporaries)
    labels = {a.name: a.label for a in arguments}
    checks, data_checks, searches = checks_of_reads(graph, entries, Names(lowering.names, arrays, labels), known)
    if search:
        results, data_checks = [], ()
        for number in search:
            results.append(unique(f"place{number}", {*taken, *own, *results}))
            definitions.append(Definition(results[-1], graph.tensor(f"array {results[-1]}", ()), searches[number]))
        lowering = Lowering(graph, names, arrays, known, True, reserved=[*own, *results], hints=expected)
        program = replace(program, structure=f"({SINGLE * len(search)})", copies=True)
    else:
        definitions = with_compared_values(graph, lowering, definitions)
    definitions = _scalar_results_last(definitions, results)
    lowering.planner.has_segments = options.segments and temporaries and not search
    lowering.trapezoids = options.trapezoids
    lowering.shifts.stores_freely = options.arrays
    lowering.tables = options.tables and temporaries and not search
    return _Simplified(
        task=task,
        program=replace(program, checks=tuple(checks), data_checks=data_checks, laws=tuple(graph.laws.items())),
        lowering=lowering,
        definitions=definitions,
        results=results,
        entries=_in_loop_form(graph, lowering, definitions, task.sizes, options),
        library=expected is not None,
    )


def _in_loop_form(
    graph: Graph, lowering: Lowering, definitions: Sequence[Definition], sizes: frozenset[int], options: Options
) -> list[Node]:
    """Rewrite the entries of `definitions` so that loops compute them fast, and return them. ``sizes`` are the size
    variables; ``options.expand`` multiplies out products in sums. Sums to be stored are recorded in `lowering`.
    """
    entries = [definition.entries for definition in definitions if definition.entries is not None]
    tight = defined_at_zero(graph, tighten(graph, entries, lowering.facts, sizes | size_variables(entries)))
    tight = expanded(graph, tight, lowering.facts) if options.expand else tight
    has_products = options.norms and options.rows and options.library and lowering.temporaries
    tight = sums_by_value(graph, tight) if lowering.temporaries else list(tight)
    tight = without_large_exponentials(graph, tight, has_products)
    tight = with_sums_split_by_index_order(graph, with_sorted_selections(graph, tight))
    tight = extrema_over_segments(graph, tight)
    if lowering.temporaries:
        # On a GPU, threads share the terms of a double sum; array libraries have no loops that go on.
        tight = with_running_sums(graph, tight) if options.rows else tight
        tight, known = nested_around_known_sums(graph, lowering.planner, with_coprime_terms(graph, tight))
        tight = joined_sums(graph, lowering.planner, tight)
        tight = factored_sums(graph, lowering.planner, tight, lowering.hints)
        tight = separated_sums(graph, tight, lambda *part: numbered(lowering.planner, *part) in known)
        tight = with_tests_as_choices(graph, tight) if options.rows else tight
        tight, shared = ordered_sums(graph, lowering.planner, tight)
        lowering.repeated = known | shared
    return list(tight)


@dataclass(frozen=True)
class _BuiltProgram:
    """A program before its verification: complete with steps, checks and masks (tests for reads that may be out of
    bounds), and with the facts about its temporaries that were found when it was built.
    """

    program: Program
    of_rows: set[str]
    """The names of temporaries that exist only because ``shares_rows`` allows functions of several sums to be stored.

    They store functions of the axes of several sums, as ``exp(-(x[i] - k)**2)``, or of sums. Only one row of each is to
    be kept: they may be larger than all arguments, unless as much is kept without them.
    """
    doubled: dict[Node, StorageCandidate]
    """The values that several temporaries store, with domains that contain all of theirs."""
    shares_rows: bool

    @cached_property
    def whole_arrays(self) -> list[programs.Array]:
        """The temporaries with two or more axes that are stored whole, rather than one row at a time."""
        large = [array for array in self.program.temporaries if len(array.shape) > 1]
        rows = _row_temporaries(self.program) if large else set()
        return [array for array in large if array.name not in rows]


def _assemble(
    simplified: _Simplified,
    shares_rows: bool = False,
    only_rows: bool = False,
    domains: Mapping[Node, StorageCandidate] | None = None,
) -> _BuiltProgram:
    """Convert the `simplified` expressions to steps, and return the complete program, with run-time checks and masked
    reads. ``shares_rows``, `only_rows` and `domains` control which shared values arrays store.

    ``shares_rows`` allows arrays for values that several sums need; with `only_rows`, loops read these arrays along
    their rows only. `domains` maps a value to the candidate for one array that stores it wherever the program needs it.
    """
    task, graph, lowering = simplified.task, simplified.task.graph, simplified.lowering.copied()
    lowering.shares_rows = shares_rows
    lowering.only_rows = only_rows
    lowering.domains = dict(domains or {})
    program = _lowered(simplified, lowering)
    if simplified.library:
        by_names = Hints({task.names[v]: size for v, size in task.hints.sizes.items() if v in task.names})
        program = with_packed_pairs(program, by_names, graph, lowering.entries)
    of_rows = {array.name for array in program.temporaries} & lowering.of_rows
    program = replace(program, assumptions=_checks_of_assumptions(program, graph.assumptions, task.names))
    check_determined(program)
    scans = [step for step in program.kernels if isinstance(step, programs.Recurrence)]
    inner = dict.fromkeys(check for step in scans for check in checks_of_steps(step))
    known = ranges_of_data(program.arguments, scans)
    increasing = tuple(sorted(lowering.arrays[name] for name in lowering.planner.increasing))
    program = replace(
        program, arguments=known, increasing=increasing, checks=(*_length_checks(program), *program.checks, *inner)
    )
    program = with_masks(with_tables(program) if lowering.tables else program)
    return _BuiltProgram(program, of_rows, {} if only_rows else lowering.doubled_domains(), shares_rows)


def _step_program(options: Options, args: Sequence[Any], exprs: tuple[Any, ...]) -> Program:
    """Return the program that computes one time step of a scan: the values ``exprs`` for the arguments ``args``, with
    the scan's ``options``.
    """
    return build_program(args, exprs, **{**vars(options), "sizes": None, "at": {}, "segments": False})


def _scalar_results_last(definitions: Sequence[Definition], results: Sequence[str]) -> list[Definition]:
    """Return `definitions` with the scalars among the results ``results`` last, unless another array reads them. Their
    code can then reuse the arrays that other results store.

    A value sums what its derivatives take entry by entry, in an order of their own: with these lowered first, it
    reads their arrays, and nothing of it is computed again in the order of the value's indices.
    """
    read = {node for one in definitions if one.entries is not None for node in reachable(one.entries)}
    names = {name for one in definitions if one.step is not None for name in uses(one.step).arrays}
    last = [
        one
        for one in definitions
        if one.name in results and one.entries is not None and not one.array.shape
        if one.array not in read and one.name not in names
    ]
    return [one for one in definitions if one not in last] + last


def _lowered(simplified: _Simplified, lowering: Lowering) -> Program:
    """Return the program with the loop nests and library calls, made by ``lowering``, of all definitions in
    ``simplified`` on which the results depend.
    """
    graph, expand, program = simplified.task.graph, simplified.task.options.expand, simplified.program
    tight = simplified.entries
    choices = repeated_choices(lowering.planner, tight) if lowering.temporaries else set()
    lowering.repeated |= choices
    if expand or lowering.shares_rows:
        lowering.repeated |= repeated_calls(lowering.planner, tight, lowering.shares_rows, choices)
    if lowering.temporaries:
        lowering.repeated |= repeated_carries(graph, lowering.planner, tight)
        short = simplified.task.options.arrays
        sums = [repeated_sums(lowering.planner, tight, lowering.repeated, large, short) for large in (False, True)]
        lowering.large_sums = sums[1] - sums[0] if lowering.shares_rows else set()
        lowering.repeated |= sums[0] | lowering.large_sums
    lowered = iter(tight)
    lowering.expect(tight, shares=simplified.task.options.shares)
    outputs: dict[str, programs.Array] = {}
    for definition in simplified.definitions:
        array = _lower(lowering, definition, None if definition.entries is None else next(lowered))
        if definition.name in simplified.results:
            outputs[definition.name] = array
        else:
            lowering.stored_arrays.append(array)
    program = replace(
        program,
        outputs=tuple([outputs[name] for name in simplified.results]),
        temporaries=tuple(lowering.stored_arrays),
        kernels=tuple(lowering.kernels),
        sizes=tuple(lowering.sizes),
        notes=tuple(lowering.notes),
    )
    return without_aliases(without_copies(eliminate_dead_steps(program)))


def _lower(lowering: Lowering, definition: Definition, entries: Node | None) -> programs.Array:
    """Add the loop nest that computes the array of ``definition`` from `entries`, the formula of its entries, to
    ``lowering``, and return the array. If `entries` is None, add a library call instead.
    """
    if entries is not None:
        return lowering.output(entries, definition.name)
    step = definition.step
    if not definition.is_filled:
        assert step is not None
        lowering.kernels.append(over_forms(step, lowering.form) if isinstance(step, programs.Recurrence) else step)
    return programs.Array(definition.name, tuple([lowering.form(extent) for extent in definition.array.shape]))


def _checks_of_assumptions(
    program: Program, assumptions: Iterable[Constraint], names: Mapping[Any, str]
) -> tuple[Check, ...]:
    """Return run-time checks of the constraints on sizes in ``assumptions``, without those that the shapes of the
    arguments imply. ``names`` maps the variables of the constraints to their names in the program.
    """
    prover = Prover(program)
    known = {a.name for a in program.arguments if a.kind == "integer"}
    known |= {solved.name for solved in solve_sizes(program.arguments)}
    checks = []
    for row in assumptions:
        named = row.substitute({v: Affine.variable(names[v]) for v in row.form.atoms() if v in names})
        if named.form.atoms() <= known and not prover.proves(named):
            least = -named.form.constant
            checks.append(Check((named.negation(),), f"{extrema_text(named.form + least)} has to be at least {least}"))
    return tuple(checks)


def _length_checks(program: Program) -> tuple[Check, ...]:
    """Return run-time checks that no axis of an array that `program` passes to a library call is empty, except for
    matrix products. Checks that the sizes imply are left out.

    Products of matrices may be empty, or sums of no terms, which are 0.
    """
    prover = Prover(program)
    steps = [step for step in program.kernels if not isinstance(step, programs.Kernel | programs.ContractionStep)]
    given = [name for step in steps for name in uses(step).arrays]
    extents = dict.fromkeys(extent for name in dict.fromkeys(given) for extent in prover.shapes[name])
    return tuple(
        Check((Constraint("ge", -extent),), f"a tensor would have an axis of length {extent}, which is not positive")
        for extent in extents
        if not prover.proves(Constraint("ge", extent - 1))
    )
