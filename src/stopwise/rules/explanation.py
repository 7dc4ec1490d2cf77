"""Why did it stop there? In a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stopwise.path import Path
from stopwise.rules.base import Reason, Stop, in_steps

_MINIMISED = {
    "sure": "Stein's unbiased estimate of the risk",
    "gcv": "the generalised cross-validation score",
    "loo": "the leave-one-out error",
    "minimax": "the worst risk over the Hilbert ball",
    "holdout": "the error on the held-out rows",
    "oracle": "the error against the known truth",
    "evidence": "minus the log of the evidence",
}
_READ_NOISE = ("critical", "minimax", "sure", "discrepancy")
"""Rules that weigh what a step gains against the noise level."""
_ASK_LEFT_OUT = ("prudent", "leave-block-out")
"""Rules that ask rows that were left out whether a step predicts them clearly better."""
_FILTERS = {
    "descent": "Gradient descent",
    "flow": "Gradient flow",
    "nu-method": "The nu-method",
    "ridge": "Ridge",
    "cutoff": "The spectral cut-off",
}


def explain(model: Any) -> str:
    """A plain account of where a fitted model, or the last step of a pipeline, stopped and why; a line per response."""
    model = last_step(model)
    if not hasattr(model, "path_"):
        return _under_loss(model.stop_)
    stops = stops_of(model)
    single = len(stops) == 1
    lines = []
    for column, stop in enumerate(stops):
        path = paths_of(model)[column]
        text = f"{_where(path.filter.name, stop)}{_WHY[stop.reason](stop, path)}"
        text += _varying(model, column) + _landmarks(stop)
        lines.append(text if single else f"Response {column + 1}: {text}")
    return "\n".join(lines)


def last_step(model: Any) -> Any:
    """The estimator itself: of a pipeline its last step."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


def stops_of(model: Any) -> list[Stop]:
    """The stop of every response of a fitted model."""
    return [model.stop_] if isinstance(model.stop_, Stop) else list(model.stop_)


def paths_of(model: Any) -> list[Path]:
    """The path of every response of a fitted model."""
    if isinstance(model.path_, Path):
        return [model.path_.column(j) for j in range(model.path_.n_responses)]
    return list(model.path_)


def _under_loss(stop: Stop) -> str:
    """The account of a fit under another loss than squares."""
    seen, fit = stop.evidence, f"The fit is the minimiser at a step_sum of {stop.step_sum:.4g}"
    if stop.iteration is not None:
        return (
            f"Functional descent stopped after {in_steps(stop.iteration)} (step_sum {stop.step_sum:.4g}), the most "
            "that the published bound covers at this critical radius."
        )
    if stop.reason is Reason.FIXED:
        return f"{fit}, which was given."
    if stop.reason is Reason.ZERO:
        if seen.lowest is None:
            return "The fit is constant: the response does not vary."
        return "The fit is constant: no minimiser on the path predicts left-out rows better than chance would."
    loss, near = f"left-out loss, {seen.criterion:.4g} a row, is", f"within {seen.allowance:g} standard errors of"
    if seen.allowance == 0:
        return f"{fit}, whose {loss} the smallest on the path."
    if seen.lowest_step_sum == stop.step_sum:
        return f"{fit}, whose {loss} the smallest on the path; none earlier comes {near} it."
    at = f"{seen.lowest:.4g} (at step_sum {seen.lowest_step_sum:.4g})"
    if stop.beyond_allowance or stop.step_sum > (seen.lowest_step_sum or 0.0):
        return (
            f"{fit}: the earliest whose left-out loss, interpolated between the fits that were made, is {near} the "
            f"smallest; here it is {seen.criterion:.4g} a row, and the smallest of a fit {at}."
        )
    return f"{fit}: the earliest whose {loss} {near} the smallest, {at}."


def _varying(model: Any, column: int) -> str:
    """A sentence on noise that varies with x, where left-out residuals show it."""
    ratio = model.noise_variation()[column]
    if ratio is None:
        return ""
    return (
        f" Left-out residuals are not even: up to {ratio:.2g} times as large in some places as in others, and "
        "intervals follow that."
    )


def _landmarks(stop: Stop) -> str:
    """A sentence on landmarks that a budget kept few, where left-out rows show it."""
    sure = stop.certainty
    if sure is None or sure.bracket is not None or not (sure.grown_until or "").endswith("budget"):
        return ""
    return (
        f" {sure.landmarks:,} landmarks stand for all rows, as many as the {sure.grown_until} allows; the last of them "
        "still lowered the left-out error, so that more (n_landmarks) would predict better."
    )


def _where(filter_name: str, stop: Stop) -> str:
    who = _FILTERS.get(filter_name, f"The filter {filter_name}")
    if stop.reason is Reason.ZERO:
        return f"{who} took no step"
    if stop.iteration is not None:
        return f"{who} stopped after {in_steps(stop.iteration)} (step_sum {stop.step_sum:.4g})"
    clock = "an inverse penalty" if filter_name == "ridge" else "a step_sum"
    return f"{who} stopped at {clock} of {stop.step_sum:.4g}"


def _apart(first: float, second: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see which is larger."""
    texts = f"{first:.4g}", f"{second:.4g}"
    for digits in range(5, 18):  # seventeen tell any two floats apart
        if first == second or texts[0] != texts[1]:
            break
        texts = f"{first:.{digits}g}", f"{second:.{digits}g}"
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


def _criterion(rule: str | None) -> str:
    """What a rule reads, in words; of a rule that is not ours, by its name."""
    return _MINIMISED.get(rule or "?", f"the criterion of the rule {rule or '?'}")


def _left_out_error(stop: Stop, path: Path) -> str:
    """What the rules call small that allow for standard errors."""
    if stop.evidence.rule == "leave-block-out":
        return "error on blocks or groups of rows left out"
    return "leave-one-out error" if path.filter.name == "ridge" else "ridge's leave-one-out error"


def _minimum(stop: Stop, path: Path) -> str:
    seen, rule, ridge = stop.evidence, stop.evidence.rule or "?", path.filter.name == "ridge"
    if seen.lowest_step_sum is not None and seen.allowance is not None:
        if rule == "leave-block-out" and not ridge and stop.beyond_allowance:
            return ": the error of its own path on blocks or groups of rows left out is smallest there."
        own, near = _left_out_error(stop, path), f"within {seen.allowance:g} standard errors of"
        error = f"of the clock at which {own}" if own.startswith("ridge") else f"whose {own}"
        if path.filter.snap(np.asarray(seen.lowest_step_sum)) <= stop.step_sum:  # descent stops at whole steps
            return f": the point {error} is smallest{f'; none earlier comes {near} it' if seen.allowance else ''}."
        return (
            f": the earliest point {error} is {near} the smallest on the path (at step_sum "
            f"{seen.lowest_step_sum:.4g}); the data cannot tell the two apart, and the earlier fit is the simpler one."
        )
    return f": {_criterion(rule)}{'' if ridge or rule != 'loo' else ', by the leverage shortcut,'} is smallest there."


def _threshold(stop: Stop, path: Path) -> str:
    seen, rule = stop.details, stop.evidence.rule
    if rule is not None and rule != "discrepancy":
        return f": there {_criterion(rule)} has reached its threshold."
    if not {"residual", "threshold"} <= seen.keys():
        return ": there the residual has come down to the noise level."
    here, level = (float(path.scale) * math.sqrt(seen[key]) for key in ("residual", "threshold"))
    return f": there the residual, {here:.4g}, has come down to the noise level, {level:.4g}."


def _zero(stop: Stop, path: Path) -> str:
    if float(path.energy) == 0:
        return f": the response does not vary, and the estimate is the constant {float(path.offset):.4g}."
    if path.spectrum.largest_bound == 0:
        return f": the kernel sees no difference between rows, and the estimate is {float(path.offset):.4g} everywhere."
    rule, more = stop.evidence.rule, "More rows or another kernel"
    why = "no step predicts rows that were left out clearly better"
    if rule in _READ_NOISE:
        why, more = "at this noise level no step is justified", "More rows, another kernel or a smaller noise_std"
    elif rule in _MINIMISED:
        why = f"{_criterion(rule)} is smallest without any step"
    elif rule is not None and rule not in _ASK_LEFT_OUT:
        why, more = f"the rule {rule} asks for none", ""
    if path.n_fixed > 1:
        return f": the linear part says it all, and beyond it {why}."
    change = f" {more} would change that." if more else ""
    return f": {why}, and the estimate is the constant {float(path.offset):.4g}.{change}"


_MOST = 0.5
"""The share of all degrees of freedom from which on a fit is said to run near the points."""


def _cap(stop: Stop, path: Path) -> str:
    used, n = float(path.degrees_of_freedom(np.asarray(stop.step_sum))), path.n_samples
    spent = f"{used:.3g} degrees of freedom of {n:.6g}"
    if stop.evidence.asked_step_sum is not None:
        return (
            f", where the path ends: a step_sum of {stop.evidence.asked_step_sum:.3g} was asked for, past which "
            f"rounding would make predictions ({spent})."
        )
    if stop.evidence.criterion is not None and stop.evidence.allowance is not None:
        own, error = _left_out_error(stop, path), float(path.scale) * math.sqrt(max(stop.evidence.criterion, 0.0))
        return (
            f", where the path ends, with {spent}: there {'' if own.startswith('ridge') else 'the '}{own} is smallest, "
            f"{error:.2g} (root mean square)."
        )
    if used > _MOST * n:
        other = "is the noise level given too small" if stop.evidence.rule in _READ_NOISE else "do rows repeat"
        return (
            f", where the path ends, with {spent}: the rule never asked to stop, and the fit runs near the points. Is "
            f"there so little noise, or {other}?"
        )
    left = float(path.residual_norm(stop.step_sum))
    return (
        f", where the path ends, with {spent}: the rule never asked to stop, and what is left of the response, "
        f"{left:.2g} (root mean square), this kernel cannot fit."
    )


def _budget(stop: Stop, path: Path) -> str:
    bracket = None if stop.certainty is None else stop.certainty.bracket
    if bracket is None or not math.isfinite(bracket[1]):
        return ": the spectrum was not settled within its budget, and the exact stop may lie elsewhere."
    told = (
        ": the spectrum was not settled within its budget. As far as it tells, the exact stop lies between step_sum "
        f"{bracket[0]:.4g} and {bracket[1]:.4g}."
    )
    if stop.certainty is None or stop.certainty.landmarks is None:
        return told
    # Landmarks know their own path whole; an unfinished spectrum knows only a part of the change.
    change, left = float(path.change(*bracket)), float(path.residual_norm(stop.step_sum))
    share = f", {100 * change / left:.2g}% of what is left of y" if left > 0 else ""
    return f"{told} Between them fitted values change by {change:.2g} (root mean square{share})."


_WHY: dict[Reason, Callable[[Stop, Path], str]] = {
    Reason.CROSSING: _crossing,
    Reason.MINIMUM: _minimum,
    Reason.THRESHOLD: _threshold,
    Reason.FIXED: lambda stop, path: ": the stop was given, not read off the data.",
    Reason.ZERO: _zero,
    Reason.CAP: _cap,
    Reason.BUDGET: _budget,
}
