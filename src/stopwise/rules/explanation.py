"""Why did it stop there? In a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stopwise.path import Path
from stopwise.rules.base import Reason, Stop

_MINIMISED = {
    "sure": "Stein's unbiased estimate of the risk",
    "gcv": "the generalised cross-validation score",
    "loo": "the leave-one-out error",
    "minimax": "the worst risk over the Hilbert ball",
    "holdout": "the error on the held-out rows",
    "oracle": "the error against the known truth",
}
_FILTERS = {"descent": "Gradient descent", "flow": "Gradient flow", "nu-method": "The nu-method", "ridge": "Ridge"}


def explain(model: Any) -> str:
    """A plain account of where a fitted model stopped and what decided it; one line per response."""
    if not hasattr(model, "path_"):
        return _under_loss(model.stop_)
    stops = [model.stop_] if isinstance(model.stop_, Stop) else list(model.stop_)
    single = len(stops) == 1
    lines = []
    for column, stop in enumerate(stops):
        path = model.path_.column(column)
        text = f"{_where(path.filter.name, stop)}{_WHY[stop.reason](stop, path)}"
        lines.append(text if single else f"Response {column + 1}: {text}")
    return "\n".join(lines)


def _under_loss(stop: Stop) -> str:
    """The account of a fit under another loss than squares."""
    seen = stop.evidence
    if stop.iteration is not None:
        return (
            f"Functional descent stopped after {stop.iteration:,} steps (step_sum {stop.step_sum:.4g}), the most that "
            "the published bound covers at this critical radius."
        )
    if stop.reason is Reason.FIXED:
        return f"The fit is the minimiser at a step_sum of {stop.step_sum:.4g}, which was given."
    if stop.reason is Reason.ZERO:
        return "The fit is constant: no minimiser on the path predicts left-out rows better than chance would."
    return (
        f"The fit is the minimiser at a step_sum of {stop.step_sum:.4g}: the earliest whose left-out loss, "
        f"{seen.criterion:.4g} a row, is within {seen.allowance:g} standard errors of the smallest, {seen.lowest:.4g} "
        f"(at step_sum {seen.lowest_step_sum:.4g})."
    )


def _where(filter_name: str, stop: Stop) -> str:
    who = _FILTERS.get(filter_name, "The spectral cut-off")
    if stop.reason is Reason.ZERO:
        return f"{who} took no step"
    if stop.iteration is not None:
        steps = f"{stop.iteration:,} step{'' if stop.iteration == 1 else 's'}"
        return f"{who} stopped after {steps} (step_sum {stop.step_sum:.4g})"
    clock = "an inverse penalty" if filter_name == "ridge" else "a step_sum"
    return f"{who} stopped at {clock} of {stop.step_sum:.4g}"


def _apart(first: float, second: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see which is larger."""
    for digits in range(4, 12):
        texts = f"{first:.{digits}g}", f"{second:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def _crossing(stop: Stop, path: Path) -> str:
    seen = stop.details
    if not {"complexity", "threshold", "next_complexity", "next_threshold"} <= seen.keys():
        return ": there the complexity crosses its threshold."
    if stop.iteration is None:
        here = f"the local complexity of the data, {seen['complexity']:.4g}, meets its threshold"
        return f": there {here}; going further would add more noise than it would remove bias."
    now = _apart(seen["complexity"], seen["threshold"])
    then = _apart(seen["next_complexity"], seen["next_threshold"])
    return (
        f": the local complexity of the data, {now[0]}, is still within its threshold, {now[1]}; one step later it is "
        f"above ({then[0]} > {then[1]}), and from there on steps add more noise than they remove bias."
    )


def _minimum(stop: Stop, path: Path) -> str:
    seen = stop.details
    if {"lowest_step_sum", "allowance"} <= seen.keys():
        return (
            f": the earliest point whose leave-one-out error is within {seen['allowance']:g} standard errors of the "
            f"smallest on the path (at step_sum {seen['lowest_step_sum']:.4g}); the data cannot tell the two apart, "
            "and the earlier fit is the simpler one."
        )
    rule = stop.evidence.rule or "?"
    return f": {_MINIMISED.get(rule, f'the criterion of the rule {rule}')} is smallest there."


def _threshold(stop: Stop, path: Path) -> str:
    return ": there the residual has come down to the noise level, and what is left looks like noise alone."


def _fixed(stop: Stop, path: Path) -> str:
    return ": the stop was given, not read off the data."


def _zero(stop: Stop, path: Path) -> str:
    return (
        f": at this noise level no step is justified, and the estimate is the constant {float(path.offset):.4g}. More "
        "rows, another kernel or a smaller noise_std would change that."
    )


def _cap(stop: Stop, path: Path) -> str:
    return (
        ", the limit of the path: the rule never asked to stop, so the fit nearly runs through the points. Is the "
        "noise level too small, or are there rows that repeat?"
    )


def _budget(stop: Stop, path: Path) -> str:
    return ": the spectrum was not settled within its budget, so the true stop may be a little later."


_WHY: dict[Reason, Callable[[Stop, Path], str]] = {
    Reason.CROSSING: _crossing,
    Reason.MINIMUM: _minimum,
    Reason.THRESHOLD: _threshold,
    Reason.FIXED: _fixed,
    Reason.ZERO: _zero,
    Reason.CAP: _cap,
    Reason.BUDGET: _budget,
}
