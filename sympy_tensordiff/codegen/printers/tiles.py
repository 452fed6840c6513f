"""The innermost block of a sum of products, which stays in registers, as text for Numba's modules.

Numba makes vectors of a loop whose sums are in memory, or of one sum along a loop; not of several sums side by side in
several vectors, which takes each number from memory once for many products. So this block is written in the language
of LLVM, for vectors as wide as the processor has. The function before it says in Python what it computes.
"""

from __future__ import annotations

from sympy_tensordiff.codegen.tiling import ROWS

BYTES = 64
"""Lanes come in multiples of so many bytes: no vector is longer."""

NAMES = ("add_tile", "compiled_tile", "tile_in_registers", "binding", "ir", "cgutils", "intrinsic", "overload", "types")

MARK = r"\badd_tile\("

TILE = '''\
def add_tile(c, ci, cr, a, ai, ar, at, b, bi, bt, rows, lanes, terms):
    """Add sums of products to rows of ``c``, of which lanes lie side by side: ``c[row, :] += a[row, t]*b[t, :]``.

    Each array is given with a place in it, then the distances of rows and of terms, in numbers. Of the ROWS rows of
    a block at least one is wanted; lanes fill vectors of BYTES bytes.
    """
    c, a, b = c.reshape(-1), a.reshape(-1), b.reshape(-1)
    for row in range(rows):
        place = ci + row*cr
        for t in range(terms):
            c[place:place + lanes] += a[ai + row*ar + t*at]*b[bi + t*bt:bi + t*bt + lanes]


@intrinsic
def tile_in_registers(typing, c, ci, cr, a, ai, ar, at, b, bi, bt, rows, lanes, terms):
    """The same in vectors: sums of ROWS rows, in two vectors each where there are as many registers."""
    n = types.int64
    signature = types.void(c, n, n, a, n, n, n, b, n, n, n, n, n)

    def generate(context, builder, signature, values):
        ci, cr, ai, ar, at, bi, bt, rows, lanes, terms = (values[m] for m in (1, 2, 4, 5, 6, 8, 9, 10, 11, 12))
        integer, real = ir.IntType(64), context.get_data_type(c.dtype)
        is_wide = binding.get_host_cpu_features().get("avx512f", False)
        size = (64 if is_wide else 32)//context.get_abi_sizeof(real)
        vector, short = ir.VectorType(real, size), ir.IntType(32)
        name = f"llvm.fmuladd.v{size}{'f32' if c.dtype == types.float32 else 'f64'}"
        fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector]*3), name)
        zero, none = ir.Constant(vector, None), ir.Constant(vector, ir.Undefined)
        every = ir.Constant(ir.VectorType(short, size), [0]*size)

        def number(value):
            return ir.Constant(integer, value)

        def start(place, array, offset):
            return builder.gep(context.make_array(array)(context, builder, values[place]).data, [offset])

        def pointer(base, offset):
            return builder.bitcast(builder.gep(base, [offset]), vector.as_pointer())

        def load(place):
            value = builder.load(place)
            value.align = context.get_abi_sizeof(real)
            return value

        c0, a0, b0 = start(0, c, ci), start(3, a, ai), start(7, b, bi)
        last = builder.sub(rows, number(1))
        # Rows that are not there repeat the last one, and are not written.
        chosen = [builder.select(builder.icmp_signed("<", number(m), rows), number(m), last) for m in range(ROWS)]
        firsts = [builder.gep(a0, [builder.mul(m, ar)]) for m in chosen]

        def block(lane, width):
            before = builder.block
            inside, after = builder.append_basic_block("terms"), builder.append_basic_block("sums")
            builder.cbranch(builder.icmp_signed("<", number(0), terms), inside, after)
            builder.position_at_end(inside)
            t = builder.phi(integer)
            sums = [[builder.phi(vector) for _ in range(width)] for _ in range(ROWS)]
            base = builder.add(lane, builder.mul(t, bt))
            right = [load(pointer(b0, builder.add(base, number(v*size)))) for v in range(width)]
            totals = []
            for m in range(ROWS):
                left = builder.load(builder.gep(firsts[m], [builder.mul(t, at)]))
                left = builder.shuffle_vector(builder.insert_element(none, left, ir.Constant(short, 0)), none, every)
                totals.append([builder.call(fma, [left, right[v], sums[m][v]]) for v in range(width)])
            following = builder.add(t, number(1))
            builder.cbranch(builder.icmp_signed("<", following, terms), inside, after)
            t.add_incoming(number(0), before)
            t.add_incoming(following, inside)
            builder.position_at_end(after)
            results = [[builder.phi(vector) for _ in range(width)] for _ in range(ROWS)]
            for m in range(ROWS):
                for v in range(width):
                    for phi in (sums[m][v], results[m][v]):
                        phi.add_incoming(zero, before)
                        phi.add_incoming(totals[m][v], inside)
            for m in range(ROWS):
                with builder.if_then(builder.icmp_signed("<", number(m), rows)):
                    row = builder.add(lane, builder.mul(number(m), cr))
                    for v in range(width):
                        place = pointer(c0, builder.add(row, number(v*size)))
                        builder.store(builder.fadd(load(place), results[m][v]), place).align = (
                            context.get_abi_sizeof(real)
                        )

        width = 2 if is_wide else 1
        pairs = builder.sdiv(lanes, number(width*size))
        with cgutils.for_range(builder, pairs, intp=integer) as loop:
            block(builder.mul(loop.index, number(width*size)), width)
        if width > 1:
            lane = builder.mul(pairs, number(width*size))
            with builder.if_then(builder.icmp_signed("<", lane, lanes)):
                block(lane, 1)
        return context.get_dummy_value()

    return signature, generate


@overload(add_tile)
def compiled_tile(c, ci, cr, a, ai, ar, at, b, bi, bt, rows, lanes, terms):
    """What takes the place of ``add_tile`` in compiled code."""
    def tile(c, ci, cr, a, ai, ar, at, b, bi, bt, rows, lanes, terms):
        tile_in_registers(c, ci, cr, a, ai, ar, at, b, bi, bt, rows, lanes, terms)
    return tile'''.replace("ROWS", str(ROWS)).replace("BYTES", str(BYTES))
