"""Rules: when do we stop, and why?"""

from __future__ import annotations

from stopwise._support.checks import did_you_mean
from stopwise.rules.base import Certainty, Data, Evidence, HeldOut, Reason, Rule, Stop, clock_grid, stop_at
from stopwise.rules.critical import Critical, stopping_time
from stopwise.rules.holdout import HoldOut
from stopwise.rules.left_out_blocks import DependentRowsWarning, LeaveBlockOut
from stopwise.rules.prudent import Prudent
from stopwise.rules.risk import GCV, SURE, Discrepancy, Fixed, LeaveOneOut, MarginalLikelihood, Minimax, Oracle
from stopwise.rules.search import minimise

__all__ = [
    "GCV",
    "SURE",
    "Certainty",
    "Critical",
    "Data",
    "DependentRowsWarning",
    "Discrepancy",
    "Evidence",
    "Fixed",
    "HeldOut",
    "HoldOut",
    "LeaveBlockOut",
    "LeaveOneOut",
    "MarginalLikelihood",
    "Minimax",
    "Oracle",
    "Prudent",
    "Reason",
    "Rule",
    "Stop",
    "as_rule",
    "clock_grid",
    "minimise",
    "stop_at",
    "stopping_time",
]

_NAMED: dict[str, Rule] = {
    "critical": Critical(),
    "minimax": Minimax(),
    "sure": SURE(),
    "gcv": GCV(),
    "loo": LeaveOneOut(),
    "discrepancy": Discrepancy(),
    "holdout": HoldOut(),
    "evidence": MarginalLikelihood(),
    "auto": Prudent(),
    "prudent": Prudent(),
}


def as_rule(rule: object) -> Rule:
    """A rule from an instance or a name."""
    if isinstance(rule, Rule):
        return rule
    if isinstance(rule, str) and rule in _NAMED:
        return _NAMED[rule]
    names = ", ".join(f'"{name}"' for name in _NAMED)
    got = f"{rule!r}{did_you_mean(rule, _NAMED)}"
    raise ValueError(f"rule must be one of {names} or a sw.rules instance; got {got}")
