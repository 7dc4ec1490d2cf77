"""Column names are text from strangers: shown on one line, told apart, never obeyed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def shown(text: object, limit: int = 60) -> str:
    """Text fit for one line of a terminal: control characters spelled out, long ones cut."""
    whole = str(text)
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in whole[: 2 * limit])
    if len(whole) <= 2 * limit and len(safe) <= limit:
        return safe
    return f"{safe[:limit]}... ({len(whole):,} characters)"


def quoted(names: Iterable[object], most: int = 5) -> str:
    """Some names in quotes, and how many more there are."""
    return listed([f"'{shown(name)}'" for name in names], most)


def listed(texts: Sequence[str], most: int = 5) -> str:
    """Some texts, and how many more there are."""
    some = ", ".join(texts[:most])
    return some if len(texts) <= most else f"{some} and {len(texts) - most} more"


def told_apart(names: Sequence[str]) -> list[str]:
    """The same names with repeats numbered: a, b, a becomes a, b, a [2]."""
    taken, counts, out = set(names), dict.fromkeys(names, 0), []
    for name in names:
        counts[name] += 1
        unique = name
        while counts[name] > 1 and unique in taken:
            unique = f"{name} [{counts[name]}]"
            counts[name] += unique in taken
        taken.add(unique)
        out.append(unique)
    return out
