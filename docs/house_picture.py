"""The rooms as boxes in layers, and a curve for each import that does not follow from others: one SVG."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from itertools import pairwise

from house import ENGINE, GROUND, ROOMS, arrows, engine_arrows, modules

BOX, HIGH, GAP, LAYER = 214, 44, 26, 92
"""Width and height of a box, space between boxes, distance of layers; pixels."""
TIP = ' marker-end="url(#tip)"'
LANE = 30
"""Width of a place where a curve passes a layer."""
ENGINE_WIDE = 960
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1b2a3a; }
  .name { font-weight: 600; } .small { font-size: 11px; fill: #4a5a6a; }
  .room { fill: #eef4fa; stroke: #5b7ea3; } .ground { fill: #f3f1ea; stroke: #b3a888; }
  .engine { fill: #dfeadf; stroke: #6d946d; } .inner { fill: #f6fbf6; stroke: #6d946d; }
  path { fill: none; stroke: #7d93a8; stroke-width: 1.3; }
"""

Edge = tuple[str, str]


def reduced(edges: set[Edge]) -> set[Edge]:
    """Without the edges that a longer way implies."""
    after = {a: {c for b, c in edges if b == a} for a, _ in edges}

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        rest = list(after.get(start, ()))
        while rest:
            node = rest.pop()
            if node not in seen:
                seen.add(node)
                rest += after.get(node, ())
        return seen

    return {(a, b) for a, b in edges if not any(b in reach(c) for c in after[a] - {b})}


def layers(nodes: list[str], edges: set[Edge]) -> tuple[list[list[str]], set[Edge]]:
    """Nodes by the length of the longest way to them, with a lane where an edge passes a layer, and edges cut there."""
    rank: dict[str, int] = {}
    for node in nodes:  # nodes come in the order of imports, so what a node uses is there before it
        rank[node] = max((rank[a] + 1 for a, b in edges if b == node), default=0)
    rows: list[list[str]] = [[n for n in nodes if rank[n] == level] for level in range(max(rank.values()) + 1)]
    pieces = set()
    for a, b in sorted(edges):
        stops = [a, *(f"lane {a} {b} {level}" for level in range(rank[a] + 1, rank[b])), b]
        for level, lane in enumerate(stops[1:-1], rank[a] + 1):
            rows[level].append(lane)
        pieces |= set(pairwise(stops))
    return rows, pieces


def width(node: str) -> int:
    return LANE if is_lane(node) else ENGINE_WIDE if node == "engine" else BOX


def height(node: str) -> int:
    return LANE if is_lane(node) else HIGH


def is_lane(node: str) -> bool:
    return node.startswith("lane")


def places(rows: list[list[str]], pieces: set[Edge], size: Callable[[str], int]) -> tuple[dict[str, float], int]:
    """The middle of each node along its layer, and how long the longest layer is.

    Every layer stands in the order of its neighbours' middles, swept down and up until it settles.
    """
    long = max(sum(map(size, row)) + GAP * (len(row) + 1) for row in rows)
    middle: dict[str, float] = {}

    def spread(row: list[str]) -> None:
        left = (long - sum(map(size, row)) - GAP * (len(row) - 1)) / 2
        for node in row:
            middle[node] = left + size(node) / 2
            left += size(node) + GAP

    def wanted(node: str) -> float:
        near = [middle[b if a == node else a] for a, b in pieces if node in (a, b)]
        return sum(near) / len(near) if near else middle[node]

    for row in rows:
        spread(row)
    for sweep in range(24):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            row.sort(key=wanted)
            spread(row)
    return middle, long


def box(x: float, y: float, name: str, words: str, kind: str, wide: float = BOX, high: float = HIGH) -> str:
    left, top = x - wide / 2, y
    return (
        f'<rect class="{kind}" x="{left:.0f}" y="{top:.0f}" width="{wide:.0f}" height="{high:.0f}" rx="6"/>'
        f'<text class="name" x="{x:.0f}" y="{top + 18:.0f}" text-anchor="middle">{escape(name)}</text>'
        f'<text class="small" x="{x:.0f}" y="{top + 35:.0f}" text-anchor="middle">{escape(words)}</text>'
    )


def curve(x: float, y: float, to_x: float, to_y: float, tip: bool, sideways: bool = False) -> str:
    """From one point to another, leaving and arriving upright, or level if `sideways`."""
    across, down = (x + to_x) / 2, (y + to_y) / 2
    bends = (across, y, across, to_y) if sideways else (x, down, to_x, down)
    way = " ".join(f"{v:.0f}" for v in (*bends, to_x, to_y))
    return f'<path{TIP if tip else ""} d="M{x:.0f} {y:.0f} C{way}"/>'


def inside_engine(x: float, y: float) -> tuple[str, float]:
    """The engine's rooms in layers from left to right, in a box of their own; and its height."""
    there = [name for name in ENGINE if f"stopwise.engine.{name}" in modules()]
    rows, pieces = layers(there, reduced(engine_arrows()))
    middle, long = places(rows, pieces, height)
    step = (ENGINE_WIDE - 20) / len(rows)
    small = min(step - 40, 176)
    left = {node: x - ENGINE_WIDE / 2 + 10 + step * (i + 0.5) - small / 2 for i, row in enumerate(rows) for node in row}
    top, high = y + 30, long + 24
    out = [box(x, y, "engine", ROOMS["engine"], "engine", ENGINE_WIDE, high)]
    for a, b in sorted(pieces):
        out.append(curve(left[a] + small, top + middle[a], left[b], top + middle[b], not is_lane(b), sideways=True))
    for node in left:
        if is_lane(node):
            out.append(f'<path d="M{left[node]:.0f} {top + middle[node]:.0f} h{small:.0f}"/>')
        else:
            words = ENGINE[node][1]
            out.append(box(left[node] + small / 2, top + middle[node] - HIGH / 2, node, words, "inner", small))
    return "\n".join(out), high


def picture() -> str:
    """The whole SVG."""
    known = {module.split(".")[1] for module in modules() if "." in module}
    nodes = [name for name in ROOMS if name in known and name not in GROUND]
    edges = reduced(arrows())
    rows, pieces = layers(nodes, edges)
    x, wide = places(rows, pieces, width)
    top, bottom, y = {}, {}, 30 + HIGH + 40
    boxes = [box(wide / 2, 20, ", ".join(GROUND), "the ground: every room may use these", "ground", wide - 2 * GAP)]
    for row in rows:
        engine, high = inside_engine(x["engine"], y) if "engine" in row else ("", HIGH)
        for node in row:
            top[node], bottom[node] = y, y + (high if is_lane(node) or node == "engine" else HIGH)
            if node == "engine":
                boxes.append(engine)
            elif not is_lane(node):
                boxes.append(box(x[node], y, node, ROOMS[node], "room"))
        y += high + LAYER - HIGH
    ways = [curve(x[a], bottom[a], x[b], top[b], not is_lane(b)) for a, b in sorted(pieces)]
    ways += [f'<path d="M{x[n]:.0f} {top[n]} V{bottom[n]}"/>' for n in x if is_lane(n)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {y}" width="{wide}" height="{y}">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<polygon points="0,0 8,4 0,8" fill="#7d93a8"/></marker></defs>',
            f'<rect width="{wide}" height="{y}" fill="#ffffff"/>',
            *ways,
            *boxes,
            "</svg>\n",
        ]
    )
