"""How a fitted estimator shows itself in a notebook: scikit-learn's diagram, and under it where it stopped and why."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

import numpy as np
from sklearn.utils import estimator_html_repr

from stopwise._support.arrays import ArrayLike
from stopwise.estimators.prediction.response_groups import by_fit, common_of, groups_of
from stopwise.rules.explanation import explain, paths_of

_STYLE = "font-family: system-ui, sans-serif; font-size: 0.95em; line-height: 1.5; max-width: 46em; margin: 0.6em 0"
_MOST = 20
"""Responses whose stops are shown one by one."""


class StopDisplay:
    """The HTML representation of an estimator, with its stop once it has one."""

    def _html_repr(self) -> str:
        diagram: str = estimator_html_repr(self)
        return diagram if not hasattr(self, "stop_") else diagram + stop_html(self)

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _get_params_html(self, *given: Any, **named: Any) -> Any:
        """The table of parameters inside scikit-learn's diagram, and above it where the fit stopped and why."""
        table = super()._get_params_html(*given, **named)  # type: ignore[misc]
        if hasattr(self, "stop_"):
            plain = table._repr_html_inner
            table._repr_html_inner = lambda: stop_html(self) + plain()
        return table

    def _sk_visual_block_(self) -> Any:
        """The same for releases of scikit-learn that show text there."""
        block = vars(sys.modules[estimator_html_repr.__module__])["_VisualBlock"]
        why = f"\n\n{explain(self)}" if hasattr(self, "stop_") else ""
        return block("single", self, names=type(self).__name__, name_details=str(self) + why)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._html_repr()
        return bundle


def stop_html(model: Any) -> str:
    """Where a fitted model stopped, why, and its numbers, as a piece of HTML."""
    lines = explain(model).splitlines()
    more = [f"and {len(lines) - _MOST} more responses"] if len(lines) > _MOST else []
    words = "<br>".join(escape(line) for line in lines[:_MOST] + more)
    fitted, groups = common_of(model), groups_of(model)
    kernels = [fitted.kernel.name] if groups is None else by_fit(groups, lambda f: f.kernel.name)
    facts = {"kernel": ", ".join(kernels)}
    if hasattr(model, "path_"):
        facts |= {
            "noise level": _number(model.noise_std_),
            "degrees of freedom": _number([path.degrees_of_freedom() for path in paths_of(model)]),
            "error in sample": _number([path.residual_norm() for path in paths_of(model)]),
        }
    facts["solver"] = fitted.solver
    shown = " · ".join(f"{escape(name)} <b>{escape(str(value)[:200])}</b>" for name, value in facts.items())
    return f'<div class="stopwise-stop" style="{_STYLE}"><div>{words}</div><div>{shown}</div></div>'


def _number(values: ArrayLike) -> str:
    several = np.atleast_1d(values)
    text = ", ".join(f"{value:.4g}" for value in several[:3])
    return text if several.size <= 3 else f"{text}, ..."
