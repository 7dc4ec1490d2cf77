"""A claim of the paper, what was seen, and the verdict."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from stopwise.experiments.tally import Row

HOLDS, FAILS = "holds", "does not hold"


def verdict(holds: bool) -> str:
    """The verdict on a claim as it is printed."""
    return HOLDS if holds else FAILS


def under(reading: str) -> str:
    """The verdict on a claim that is true under one reading."""
    return f"holds under {reading}"


@dataclass(frozen=True)
class Claim:
    """`key` names it, `claim` puts it in our words, `where` finds it in RWY14, `seen` are the numbers in a sentence.

    `command` is filled in by the run.
    """

    key: str
    claim: str
    where: str
    seen: str
    verdict: str
    numbers: dict[str, float] = field(default_factory=dict)
    command: str = ""


def shown(row: Row, digits: int = 4) -> str:
    """A mean with its standard error, or without where it is exact."""
    if not row.standard_error:
        return f"{row.mean:.{digits}f}"
    return f"{row.mean:.{digits}f} (s.e. {row.standard_error:.1g})"


def as_json(claims: Sequence[Claim]) -> str:
    return json.dumps([asdict(claim) for claim in claims], indent=2, ensure_ascii=False) + "\n"


def as_markdown(claims: Sequence[Claim], about: str) -> str:
    head = ["# What the experiments say", "", about, "", "| claim | where | seen | verdict | shown by |"]
    table = [(c.claim, c.where, c.seen, f"**{c.verdict}**", f"`{c.command}`") for c in claims]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
    return "\n".join([*head, "|---|---|---|---|---|", *lines, ""])
