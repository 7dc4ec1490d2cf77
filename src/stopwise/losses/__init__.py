"""Losses: how far is a fitted value from a response, and which way is down?"""

from __future__ import annotations

from stopwise._support.checks import did_you_mean
from stopwise.losses.base import Convexity, Loss
from stopwise.losses.labels import Exponential, Logistic, Softmax
from stopwise.losses.numbers import Huber, Poisson, Quantile, Squared

NAMED: dict[str, type[Loss]] = {kind.name: kind for kind in (Squared, Huber, Quantile, Poisson, Logistic, Exponential)}

__all__ = ["Convexity", "Exponential", "Huber", "Logistic", "Loss", "Poisson", "Quantile", "Softmax", "Squared"]


def as_loss(loss: object, *, classes: bool, **settings: object) -> Loss:
    """A loss from an instance or a name, of the kind that is asked for; `settings` go to a named one."""
    known = [name for name, kind in NAMED.items() if kind.for_classes == classes]
    if isinstance(loss, str) and loss in known:
        return NAMED[loss](**settings)
    if isinstance(loss, Loss) and loss.for_classes == classes:
        return loss
    told, near = ", ".join(f'"{name}"' for name in known), did_you_mean(loss, known)
    raise ValueError(f"loss must be one of {told} or an instance from sw.losses of that kind, got {loss!r}{near}")
