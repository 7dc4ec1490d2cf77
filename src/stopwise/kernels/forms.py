"""How a kernel's tile is computed on a device: each kernel type registers its expression; `+`, `*` compose.

To put a new kernel on the GPU, register its expression:

    @form_of.register
    def _(kernel: Yours) -> Form:
        return Form(Exp2(SquaredDistance(-1.0)))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import singledispatch

from stopwise.kernels.base import Constant, Kernel, Product, Scaled, Sum
from stopwise.kernels.expressions import (
    AbsoluteDistance,
    Affine,
    Dot,
    Exp2,
    Fixed,
    Growth,
    Inner,
    Root,
    SquaredDistance,
    Term,
    Times,
    power,
    product,
    total,
)
from stopwise.kernels.inner import Linear, Polynomial
from stopwise.kernels.radial import Gaussian, Laplace, Matern, Radial
from stopwise.kernels.separable import ProductLaplace, ProductMatern, Separable

_LOG2E, _LN2 = math.log2(math.e), math.log(2.0)
"""exp(x) = 2 ** (x log2 e): exponentials are of base 2 on a device."""


@dataclass(frozen=True)
class Form:
    """A kernel's expression. `rough`: it has a kink where x = z, so that rounding of a distance shows as its root."""

    term: Term
    rough: bool = False

    @property
    def leaves(self) -> tuple[Dot, ...]:
        """The matrix products a tile needs."""
        return tuple(node for node in self.term.nodes() if isinstance(node, Dot))

    @property
    def growths(self) -> tuple[Growth, ...]:
        """Products over features that are computed beside a leaf."""
        return tuple(node for node in self.term.nodes() if isinstance(node, Growth))

    @property
    def separable(self) -> bool:
        """Whether a leaf is a sum over features that no matrix product gives."""
        return any(isinstance(leaf, AbsoluteDistance) for leaf in self.leaves)

    def times(self, factor: float) -> Form:
        """The same form times a positive constant."""
        return replace(self, term=self.term.times(factor))


class NoForm(TypeError):
    """A kernel that has no expression: it cannot be computed on a device."""


@singledispatch
def form_of(kernel: Kernel) -> Form:
    """The expression of a kernel; register one for a new type with `@form_of.register`."""
    raise NoForm(
        f"the {kernel.name} kernel has no device form: use a Gaussian, Laplace, Matern, separable, polynomial or "
        'linear kernel or sums and products of them, or solver="krylov"'
    )


def has_form(kernel: Kernel) -> bool:
    """Whether a kernel can be computed on a device."""
    try:
        form_of(kernel.core)
    except NoForm:
        return False
    return True


@form_of.register
def _(kernel: Gaussian) -> Form:
    return Form(Exp2(SquaredDistance(-0.5 * _LOG2E, scales=tuple(kernel.scales.tolist()))))


def _scaled_distance(kernel: Radial, speed: float) -> Term:
    """log2(e) * speed * |x - z| / l, ready for exp2."""
    return Root(SquaredDistance((speed * _LOG2E) ** 2, scales=tuple(kernel.scales.tolist())))


@form_of.register
def _(kernel: Laplace) -> Form:
    return Form(Exp2(Affine(_scaled_distance(kernel, 1.0), slope=-1.0)), rough=True)


@form_of.register
def _(kernel: Matern) -> Form:
    s = _scaled_distance(kernel, math.sqrt(2 * kernel.smoothness))
    decay = Exp2(Affine(s, slope=-1.0))
    if kernel.smoothness == 0.5:
        return Form(decay, rough=True)
    # s is in units of log2(e): 1 + s ln 2, or 1 + s ln 2 (1 + s ln 2 / 3).
    growth = Affine(s, slope=_LN2, shift=1.0)
    if kernel.smoothness == 2.5:
        growth = Affine(Times(Affine(s, slope=_LN2), Affine(s, slope=_LN2 / 3, shift=1.0)), shift=1.0)
    return Form(Times(decay, growth))


def _separated(kernel: Separable) -> AbsoluteDistance:
    """log2(e) times the sum over features of s_j = speed |x_j - z_j| / l_j, ready for exp2."""
    return AbsoluteDistance(kernel.speed * _LOG2E, scales=tuple(kernel.scales.tolist()))


@form_of.register
def _(kernel: ProductLaplace) -> Form:
    return Form(Exp2(Affine(_separated(kernel), slope=-1.0)), rough=True)


@form_of.register
def _(kernel: ProductMatern) -> Form:
    total = _separated(kernel)
    return Form(Times(Exp2(Affine(total, slope=-1.0)), Growth(total, rate=_LN2)))


@form_of.register
def _(kernel: Linear) -> Form:
    return Form(Inner(1.0))


@form_of.register
def _(kernel: Polynomial) -> Form:
    return Form(power(Inner(1.0, shift=1.0), kernel.degree))


@form_of.register
def _(kernel: Constant) -> Form:
    return Form(Fixed(kernel.value))


@form_of.register
def _(kernel: Scaled) -> Form:
    return form_of(kernel.inner).times(kernel.factor)


@form_of.register
def _(kernel: Sum | Product) -> Form:
    first, second = form_of(kernel.first), form_of(kernel.second)
    join = total if isinstance(kernel, Sum) else product
    return Form(join(first.term, second.term), rough=first.rough or second.rough)
