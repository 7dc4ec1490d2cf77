"""Rows made ready for a device: the sides of every leaf, whole or cut into half-precision pieces."""

from stopwise._support.arrays import Tensor, TensorType
from stopwise._support.torch import torch
from stopwise.engine.gpu.fused_source import Scheme, row_length
from stopwise.kernels.expressions import AbsoluteDistance, Distance, Dot, Ops, Sides, Term
from stopwise.kernels.forms import Form

_GRID = 2.0**20
"""Multiples of 1 / this add up exactly in float32 up to 16, beyond which an exponential vanishes."""
PAD = 256
"""Prepared rows are padded to a multiple of this, so that no tile needs a mask."""


class TorchOps(Ops[Tensor]):
    """Element-wise arithmetic on torch tensors."""

    def affine(self, value: Tensor, slope: float, shift: float) -> Tensor:
        return value * slope + shift

    def add(self, first: Tensor, second: Tensor) -> Tensor:
        return first + second

    def multiply(self, first: Tensor, second: Tensor) -> Tensor:
        return first * second

    def exp2(self, value: Tensor) -> Tensor:
        return torch().exp2(value)

    def root(self, value: Tensor) -> Tensor:
        return torch().sqrt(value.clamp(min=0))


def evaluate(form: Form, leaves: list[Tensor], growths: list[Tensor]) -> Tensor:
    """The form's value from its leaves' values and the products beside them."""
    memo: dict[Term, Tensor] = dict(zip(form.leaves, leaves, strict=True))
    memo |= dict(zip(form.growths, growths, strict=True))
    return form.term.value(TorchOps(), memo)


def diagonal_of(form: Form, rows: Tensor) -> Tensor:
    """k(x, x) for every row of a float64 tensor."""
    ones = [torch().ones_like(rows[:, 0]) for _ in form.growths]
    return evaluate(form, [leaf.diagonal(rows) for leaf in form.leaves], ones)


def padded(count: int) -> int:
    """The next multiple of `PAD`."""
    return -(-count // PAD) * PAD


def split(values: Tensor, pieces: int, dtype: TensorType) -> list[Tensor]:
    """A float tensor as a sum of `pieces` tensors of a shorter type, largest first."""
    out = []
    for _ in range(pieces):
        piece = values.to(dtype)
        out.append(piece)
        values = values - piece.to(values.dtype)
    return out


def _halves(core: Tensor, sides: Sides, left: bool) -> Tensor:
    """[x, constant, 1, shift] with x in two float16 pieces and the constants in three.

    Small products come first, then the large ones next to the constants that cancel them, the shift last: the matrix
    units round towards zero at every step, so each sum is kept as small as it can be.
    """
    library, half = torch(), torch().float16
    high, low = split(core, 2, half)
    pieces = [piece[:, None] for piece in split(sides.constant, 3, half)]
    ones = [library.ones_like(pieces[0])] * 3
    shift = [each * one for each, one in zip(split(core.new_tensor(sides.shift), 3, half), ones, strict=True)]
    lead = [high, *pieces, *ones, *ones] if left else [high, *ones, *pieces, *shift]
    return library.cat([high, low, *lead] if left else [low, high, *lead], 1)


def _singles(core: Tensor, sides: Sides, left: bool) -> Tensor:
    constant = sides.constant[:, None]
    ones = torch().ones_like(constant)
    parts = [core, constant, ones] if left else [core, ones, constant + sides.shift]
    return torch().cat(parts, 1).to(torch().float32)


def prepare_leaf(leaf: Dot, rows: Tensor, origin: Tensor, scheme: Scheme, *, left: bool) -> Tensor:
    """The rows of one side of a leaf as the fused kernel reads them: padded with zeros, contiguous."""
    n, d = rows.shape
    if scheme.by_feature:
        out = rows.new_zeros((d, padded(n)), dtype=getattr(torch(), scheme.real))
        out[:, :n] = (leaf.scaled(rows, origin) if isinstance(leaf, Distance) else leaf.sides(rows, origin).left).T
        return out
    sides = leaf.sides(rows, origin)
    core = sides.left if left else sides.right
    ready = (_halves if scheme.dot == "f16x3" else _singles)(core, sides, left)
    out = ready.new_zeros((padded(n), row_length(scheme, d)))
    out[:n, : ready.shape[1]] = ready
    return out


def snapped(form: Form, rows: Tensor, origin: Tensor) -> Tensor:
    """Rows moved by a millionth of a length scale so that the sum over features of their differences is exact.

    A sum of rounded differences is no kernel any more (it may be indefinite); that of moved rows is one.
    """
    sums = [leaf for leaf in form.leaves if isinstance(leaf, AbsoluteDistance)]
    if len(sums) != 1:
        return rows
    rates = rows.new_tensor([sums[0].factor / scale for scale in sums[0].scales]) * _GRID
    return ((rows - origin) * rates).round() / rates + origin


def largest_entry(form: Form, rows: Tensor, origin: Tensor) -> float:
    """The largest number that would stand in a prepared row: what decides whether float16 can hold it."""
    sizes = [0.0]
    for leaf in form.leaves:
        if isinstance(leaf, AbsoluteDistance):
            continue  # always float32
        sides = leaf.sides(rows, origin)
        sizes += [float(part.abs().max()) for part in (sides.left, sides.constant) if part.numel()]
    return max(sizes)
