"""The text of a fused Triton kernel for one expression: tiles of k(x_i, x_j) made and consumed on chip.

For each tile of rows a program walks over tiles of columns: the leaves' inner products, the expression, then its
product with the block. The block's product is added up outside the matrix units, tile by tile, because these round
towards zero and over 10^5 tiles that would show: in float32, where asked for with what each addition rounds off
carried along (Kahan).
"""

import hashlib
import linecache
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from stopwise.kernels.expressions import LARGEST_GROWTH, AbsoluteDistance, Dot, Growth, Ops, SquaredDistance, Term
from stopwise.kernels.forms import Form

RESIDENT = 352
"""Rows of a leaf up to this many entries stay on chip for the whole walk; longer ones are streamed."""
STREAM = 64
"""Entries of a streamed row that are loaded at a time."""
UNROLLED = 32
"""Differences of up to this many features are written out one by one; of more, in a loop."""


@dataclass(frozen=True)
class Scheme:
    """How a tile's two stages are computed: its leaves (`dot`), then its product with the block.

    "f16x3": rows in two float16 pieces, three of their products in one. "tf32x3": float32 rows, three passes.
    "difference": a leaf summed over the features in plain float32, as squared differences or, for an inner product, as
    products; it costs most and loses least. Kernel values and block entries are cut into `pieces` float16 numbers each
    and all products of pieces added up: 2 are as exact as float32, 1 keeps three digits. `carried`: totals carry what
    additions round off, for twice the registers; it took 4 percent of the speed of the flights' narrow blocks.
    "double": as "difference", but leaves, kernel values and totals all in float64 and the block in one piece.
    """

    dot: Literal["f16x3", "tf32x3", "difference", "double"] = "f16x3"
    pieces: Literal[1, 2] = 2
    carried: bool = False

    @property
    def by_feature(self) -> bool:
        """Whether leaves are summed feature by feature."""
        return self.dot in ("difference", "double")

    @property
    def real(self) -> Literal["float32", "float64"]:
        """The type in which leaves, kernel values and totals stand."""
        return "float64" if self.dot == "double" else "float32"


class _Text(Ops[str]):
    """Arithmetic that writes statements and hands back the names of their results."""

    def __init__(self, exact: bool) -> None:
        self.lines: list[str] = []
        self._suffix = "" if exact else "_fast"

    def _emit(self, expression: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def affine(self, value: str, slope: float, shift: float) -> str:
        scaled = {1.0: value, -1.0: f"-{value}"}.get(slope, f"{value} * {slope!r}")
        if shift and slope == -1.0:
            return self._emit(f"{shift!r} - {value}")
        return self._emit(f"{scaled} + {shift!r}" if shift else scaled)

    def add(self, first: str, second: str) -> str:
        return self._emit(f"{first} + {second}")

    def multiply(self, first: str, second: str) -> str:
        return self._emit(f"{first} * {second}")

    def exp2(self, value: str) -> str:
        return self._emit(f"exp2{self._suffix}({value})")

    def root(self, value: str) -> str:
        return self._emit(f"sqrt{self._suffix}(tl.maximum({value}, 0.0))")


def chunks(length: int) -> list[tuple[int, int]]:
    """A multiple of 16 as (start, size) pieces of power-of-two size, small ones first."""
    out, start = [], 0
    for bit in range(4, length.bit_length()):
        if length >> bit & 1:
            out.append((start, 1 << bit))
            start += 1 << bit
    return out


def row_length(scheme: Scheme, n_features: int) -> int:
    """Entries in a prepared row: a multiple of 16 (of `STREAM` when streamed); exactly the features for differences."""
    if scheme.by_feature:
        return n_features
    needed = 3 * n_features + 9 if scheme.dot == "f16x3" else n_features + 2
    step = 16 if needed <= RESIDENT else STREAM
    return -(-needed // step) * step


_PRELUDE = """
@triton.jit
def exp2_fast(x):
    return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)

@triton.jit
def sqrt_fast(x):
    return tl.inline_asm_elementwise("sqrt.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)

@triton.jit
def exp2(x):
    return tl.exp2(x)

@triton.jit
def sqrt(x):
    return tl.sqrt(x)
"""


class _Writer:
    """Puts the kernel's source together, one part of the walk at a time."""

    def __init__(self, form: Form, scheme: Scheme, n_features: int, same: bool, interpret: bool) -> None:
        self.form, self.scheme, self.d = form, scheme, n_features
        self.leaves = form.leaves
        self.length = row_length(scheme, n_features)
        self.chunks = chunks(self.length)
        self.mark_diagonal = same and not scheme.by_feature
        self.text = _Text(interpret or scheme.dot == "double")
        self.real = f"tl.{scheme.real}"
        self.precision = ', input_precision="tf32x3"' if scheme.dot == "tf32x3" else ""

    def before(self) -> list[str]:
        """What is loaded once for a tile of rows."""
        lines: list[str] = []
        for g in range(len(self.leaves)):
            if self.scheme.by_feature:
                if self.d <= UNROLLED:
                    lines += [f"x{g}_{k} = tl.load(left{g} + {k} * n_left + row)" for k in range(self.d)]
            elif self.length <= RESIDENT:
                lines.append(f"l{g} = left{g} + row.to(tl.int64)[:, None] * {self.length}")
                lines += [f"x{g}_{c} = tl.load(l{g} + ({c} + tl.arange(0, {w}))[None, :])" for c, w in self.chunks]
            else:
                lines.append(f"l{g} = left{g} + row.to(tl.int64)[:, None] * {self.length} + span[None, :]")
        return lines

    def dots(self) -> list[str]:
        """The leaves' values on one tile."""
        lines: list[str] = []
        for g, leaf in enumerate(self.leaves):
            if self.scheme.by_feature:
                lines += self._difference(g, leaf)
            elif self.length <= RESIDENT:
                lines.append(f"r{g} = right{g} + base * {self.length} + lane[None, :] * {self.length}")
                for index, (c, w) in enumerate(self.chunks):
                    start = "" if index == 0 else f", d{g}"
                    lines.append(f"z = tl.load(r{g} + ({c} + tl.arange(0, {w}))[:, None])")
                    lines.append(f"d{g} = tl.dot(x{g}_{c}, z{start}{self.precision})")
            else:
                lines += self._streamed(g)
            if self.mark_diagonal and isinstance(leaf, SquaredDistance):
                lines.append(f"d{g} = tl.where(row[:, None] == (base + lane)[None, :], {leaf.shift!r}, d{g})")
        return lines

    def _difference(self, g: int, leaf: Dot) -> list[str]:
        """A leaf summed over the features, and the product beside it where one is asked for."""
        growth = next((growth for growth in self.form.growths if growth.leaf == leaf), None)
        lines = [f"d{g} = tl.zeros((BM, BN), {self.real})"]
        if growth:
            lines.append(f"g{g} = tl.full((BM, BN), 1.0, {self.real})")
        if self.d <= UNROLLED:
            for k in range(self.d):
                lines += self._feature(g, leaf, f"x{g}_{k}", str(k), growth, bound=k % 8 == 7)
        else:
            lines.append(f"for k in range(0, {self.d}):")
            body = [f"x = tl.load(left{g} + k * n_left + row)", *self._feature(g, leaf, "x", "k", growth, bound=True)]
            lines += [f"    {line}" for line in body]
        sign = "-" if isinstance(leaf, SquaredDistance) and leaf.factor < 0 else ""
        if sign or leaf.shift:
            lines.append(f"d{g} = {leaf.shift!r} {sign or '+'} d{g}")
        return lines

    def _feature(self, g: int, leaf: Dot, x: str, k: str, growth: Growth | None, *, bound: bool) -> list[str]:
        """One feature's share of a leaf: a squared or absolute difference, or a product."""
        lines = [f"z = tl.load(right{g} + {k} * n_right + base + lane)[None, :]"]
        if isinstance(leaf, SquaredDistance):
            return [*lines, f"z = {x}[:, None] - z", f"d{g} += z * z"]
        if not isinstance(leaf, AbsoluteDistance):
            return [*lines, f"d{g} += {x}[:, None] * z"]
        lines += [f"z = tl.abs({x}[:, None] - z)", f"d{g} += z"]
        if growth:
            lines.append(f"g{g} += g{g} * (z * {growth.rate!r})")
            if bound:
                lines.append(f"g{g} = tl.minimum(g{g}, {LARGEST_GROWTH!r})")
        return lines

    def _streamed(self, g: int) -> list[str]:
        return [
            f"d{g} = tl.zeros((BM, BN), tl.float32)",
            f"r{g} = right{g} + base * {self.length} + lane[None, :] * {self.length} + span[:, None]",
            f"for k in range(0, {self.length}, {STREAM}):",
            f"    d{g} = tl.dot(tl.load(l{g} + k), tl.load(r{g} + k), d{g}{self.precision})",
        ]

    def expression(self) -> tuple[list[str], str]:
        memo: dict[Term, str] = {leaf: f"d{g}" for g, leaf in enumerate(self.leaves)}
        memo |= {growth: f"g{self.leaves.index(growth.leaf)}" for growth in self.form.growths}
        name = self.form.term.value(self.text, memo)
        return self.text.lines, name

    def consume(self, value: str) -> list[str]:
        """The product of the tile with the block, added to the running totals."""
        lines = ["v = tl.load(block + base * BW + lane[:, None] * BW + wide[None, :])"]
        if self.scheme.dot == "double":
            return [*lines, f"total = tl.dot({value}, v, total, out_dtype=tl.float64)"]
        lines.append(f"high = {value}.to(tl.float16)")
        if self.scheme.pieces == 1:
            return [*lines, "total += tl.dot(high, v) * unit"]
        lines.append(f"low = ({value} - high.to(tl.float32)).to(tl.float16)")
        lines.append("part = tl.dot(high, v)")
        if not self.scheme.carried:
            return [*lines, "total += tl.dot(low, v, part) * unit"]
        lines += ["part = tl.dot(low, v, part) * unit - carried", "new = total + part"]
        return [*lines, "carried = (new - total) - part", "total = new"]

    def source(self) -> str:
        rows = ", ".join(f"left{g}, right{g}" for g in range(len(self.leaves)))
        body, value = self.expression()
        indent = "\n    "
        head = [
            "row = tl.program_id(0) * BM + tl.arange(0, BM)",
            "lane = tl.arange(0, BN)",
            "wide = tl.arange(0, BW)",
            *([f"span = tl.arange(0, {STREAM})"] if self.length > RESIDENT else []),
            *self.before(),
            f"total = tl.zeros((BM, BW), {self.real})",
            *(["carried = tl.zeros((BM, BW), tl.float32)"] if self.scheme.carried else []),
            "first = tl.program_id(1) * tiles",
            "for tile in range(first, tl.minimum(first + tiles, n_tiles)):",
            "    base = tl.cast(tile, tl.int64) * BN",
            *(f"    {line}" for line in [*self.dots(), *body, *self.consume(value)]),
            "at = out + (tl.program_id(1).to(tl.int64) * n_left + row.to(tl.int64))[:, None] * BW",
            "tl.store(at + wide[None, :], total)",
        ]
        return (
            f"import triton\nimport triton.language as tl\n{_PRELUDE}\n"
            f'@triton.jit(do_not_specialize=["n_tiles", "tiles"])\n'
            f"def fused(out, block, unit, n_tiles, tiles, n_left, n_right, {rows}, BM: tl.constexpr, "
            f"BN: tl.constexpr, BW: tl.constexpr):{indent}{indent.join(head)}\n"
        )


def write_source(form: Form, scheme: Scheme, n_features: int, *, same: bool, interpret: bool = False) -> str:
    """The source of `fused` for one form; `same`: rows and columns are the same points, at distance zero exactly."""
    return _Writer(form, scheme, n_features, same, interpret).source()


@lru_cache(maxsize=256)
def load_source(source: str) -> Any:
    """The kernel function of a source text; kept in `linecache`, where Triton looks for it."""
    name = f"<stopwise fused kernel {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "stopwise.engine.gpu.fused"}
    exec(compile(source, name, "exec"), scope)
    return scope["fused"]
