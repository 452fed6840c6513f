"""The lines that launch a kernel of CUDA, in the form that the sizes of a call are best for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sympy_tensordiff.codegen.loops import Kernel
from sympy_tensordiff.codegen.printers import cuda_parts, cuda_tiles
from sympy_tensordiff.codegen.printers.blocks import INDENT
from sympy_tensordiff.codegen.printers.cuda_blocks import THREADS
from sympy_tensordiff.codegen.printers.cuda_parts import Parts
from sympy_tensordiff.codegen.printers.cuda_tiles import product_text, tile_function
from sympy_tensordiff.codegen.printers.driver import shape_text
from sympy_tensordiff.codegen.printers.forms import UNARY, FormPrinter, Names
from sympy_tensordiff.codegen.walk import function_name
from sympy_tensordiff.integer.affine import Affine


class Forms(NamedTuple):
    """The functions that fill one array; the one with a thread per entry is always there."""

    kernel: Kernel
    box: tuple[Affine, ...]
    parameters: Sequence[str]
    blocks: tuple[str, str] | None = None
    """How many rounds the two loops have that the threads of a block share."""
    is_tiled: bool = False


class Launched(NamedTuple):
    """All that can fill the array of a kernel."""

    forms: Forms
    tiles: str | None = None
    """How many batches, rows, columns and rounds there are, where the array or its parts can be filled in tiles."""
    parts: Parts | None = None
    of_parts: Forms | None = None
    whole: Sequence[str] = ()
    """The parameters of what makes entries of parts."""


class Launcher:
    """Lines of the driver for one kernel; which of them run is decided in each call."""

    def __init__(self, launched: Launched, names: Names) -> None:
        self.launched = launched
        self.names = names
        self.printer = FormPrinter(names)
        self.array = names(launched.forms.kernel.array)
        extents = [self.printer.form(extent, UNARY) for extent in launched.forms.box]
        self.entries = product_text(extents)

    def lines(self) -> list[str]:
        """All lines, the last choice innermost."""
        forms = self.launched.forms
        threads = f"-(-{self.entries} // {THREADS})"
        lines = self.choice("threads", threads, cuda_parts.LEAST_ROUNDS, [self.threads(forms)])
        if forms.blocks is not None:
            one = self.choice("blocks", self.entries, cuda_parts.LEAST_ROUNDS_OF_BLOCKS, [self.blocks(forms)])
            blocks = f"blocks = shared({self.shape(forms)}, ({', '.join(forms.blocks)}))"
            lines = [blocks, "if blocks:", *_indented(one), *_otherwise(lines)]
            if self.launched.parts is not None and self.launched.parts.is_across:
                # Threads side by side read what lies side by side, the threads of a block would not.
                columns = self.printer.form(forms.box[-1])
                lines = self.choice(
                    "threads", f"{threads} if {columns} >= {THREADS} else 0", cuda_parts.LEAST_ROUNDS, lines
                )
        if self.launched.tiles is not None:
            if forms.is_tiled:
                one = [f"if tiles >= {cuda_tiles.TILING.least_tiles}:", *_indented(self.tiles(forms, "tiles"))]
                lines = [*one, *_otherwise(lines)]
            heights = {size: cuda_tiles.TILING.across * own for size, own in cuda_tiles.TILING.rows.items()}
            lines = [
                f"size = {self.array}.dtype.itemsize",
                f"tiles = tiled({self.launched.tiles}, {heights}[size])",
                *self.choice("tiles", "tiles", cuda_parts.LEAST_ROUNDS, lines),
            ]
        return lines

    def choice(self, form: str, blocks: str, least: int, others: list[str]) -> list[str]:
        """The lines of a form of the kernel in parts, where a device has place for more blocks; else of others."""
        parts, forms = self.launched.parts, self.launched.of_parts
        if parts is None or forms is None:
            return others
        printed = {"threads": True, "blocks": forms.blocks is not None, "tiles": forms.is_tiled}
        if not printed[form]:
            return others
        rounds = ", ".join(cut.rounds for cut in parts.cuts)
        if form == "threads":
            launch = [self.threads(forms)]
        elif form == "blocks" and forms.blocks is not None:
            launch = [f"blocks = in_blocks({self.shape(forms)}, {forms.blocks[1]})", self.blocks(forms)]
        else:
            launch = self.tiles(forms, f"(tiles, {parts.number})")
        lines = [
            f"{', '.join(f'{cut.parts}, {cut.length}' for cut in parts.cuts)} = cut",
            *([] if len(parts.cuts) == 1 else [f"{parts.number} = {'*'.join(cut.parts for cut in parts.cuts)}"]),
            f"{parts.kernel.array} = empty({parts.number}*{self.entries}, {self.array}.dtype, stream=stream)",
            *launch,
            f"{parts.function}[(*launch({self.shape(self.launched.forms)}), stream)]({', '.join(self.launched.whole)})",
        ]
        cut = f"cut = parted({blocks}, {least}, {parts.rest}, {rounds})"
        return [cut, "if cut:", *_indented(lines), *_otherwise(others)]

    def shape(self, forms: Forms) -> str:
        return shape_text(forms.box, self.printer)

    def threads(self, forms: Forms) -> str:
        """The launch of one thread per entry."""
        return f"{function_name(forms.kernel)}[(*launch({self.shape(forms)}), stream)]({', '.join(forms.parameters)})"

    def blocks(self, forms: Forms) -> str:
        """The launch of one block per entry."""
        return f"{function_name(forms.kernel)}_in_blocks[(*blocks, stream)]({', '.join(forms.parameters)})"

    def tiles(self, forms: Forms, grid: str) -> list[str]:
        """The launch of one block per tile, by the bytes of a number."""
        functions = ", ".join(f"{size}: {tile_function(forms.kernel, size)}" for size in cuda_tiles.TILING.rows)
        launch = f"fill[{grid}, {cuda_tiles.TILING.across**2}, stream]({', '.join(forms.parameters)})"
        return [f"fill = {{{functions}}}[size]", launch]


def _indented(lines: Sequence[str]) -> list[str]:
    return [INDENT + line for line in lines]


def _otherwise(lines: Sequence[str]) -> list[str]:
    """The lines as those behind an ``if``."""
    return [f"el{lines[0]}", *lines[1:]] if lines[0].startswith("if ") else ["else:", *_indented(lines)]
