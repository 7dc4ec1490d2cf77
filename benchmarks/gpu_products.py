"""Products on the GPU: are they right, and how many kernel entries a second do they make?"""

from __future__ import annotations

import time
from typing import Any

import torch
import triton
from gpu_ceilings import seconds

from stopwise import kernels
from stopwise.engine.gpu.fused_source import Scheme, row_length
from stopwise.engine.gpu.fused_tiles import FusedTiles, Launch, block_width, pick_scheme
from stopwise.engine.gpu.packed_rows import PAD, padded
from stopwise.engine.gpu.plain_tiles import TorchTiles
from stopwise.kernels.expressions import Exp2, Root, Term
from stopwise.kernels.forms import Form, form_of

SCHEMES = [Scheme("f16x3", 2), Scheme("f16x3", 1), Scheme("difference", 2), Scheme("tf32x3", 2)]
SHORT = (Launch(128, 64, 4, 3), Launch(64, 64, 4, 3), Launch(128, 64, 8, 2), Launch(128, 128, 8, 3))
LONG = (
    *SHORT,
    Launch(128, 64, 8, 3),
    Launch(64, 128, 4, 3),
    Launch(256, 64, 8, 3),
    Launch(128, 32, 4, 4),
    Launch(64, 64, 4, 2),
    Launch(64, 32, 4, 4),
    Launch(128, 64, 4, 2),
)
WIDE_BLOCK = (
    Launch(64, 64, 4, 3),
    Launch(64, 64, 4, 2),
    Launch(64, 32, 4, 4),
    Launch(128, 64, 8, 2),
    Launch(128, 128, 8, 2),
)


def named_kernels(d: int) -> dict[str, kernels.Kernel]:
    """Every fused kernel and some combinations, with length scales that suit standard normal data."""
    scale = max(1.0, d**0.5)
    gaussian, laplace = kernels.Gaussian(scale), kernels.Laplace(scale)
    return {
        "gaussian": gaussian,
        "gaussian, scale 1": kernels.Gaussian(1.0),
        "laplace": laplace,
        "matern12": kernels.Matern(scale, 0.5),
        "matern32": kernels.Matern(scale, 1.5),
        "matern52": kernels.Matern(scale, 2.5),
        "polynomial2": kernels.Polynomial(2),
        "linear": kernels.Linear(),
        "sum": 0.7 * gaussian + 0.1 * kernels.Linear(),
        "product": laplace * kernels.Polynomial(2),
        "productlaplace": kernels.ProductLaplace(float(d)),
        "productmatern32": kernels.ProductMatern(scale),
    }


class Case:
    """Random rows and blocks on the GPU, fresh for every seed, with a float64 answer on some of the rows."""

    def __init__(self, n: int, d: int, b: int, kernel: kernels.Kernel, seed: int) -> None:
        self.generator = torch.Generator("cuda").manual_seed(seed)
        self.rows = torch.randn(n, d, generator=self.generator, device="cuda", dtype=torch.float64)
        self.origin = self.rows.mean(0)
        self.form: Form = form_of(kernel)
        self.rough = torch.randn(n, b, generator=self.generator, device="cuda")
        self.smooth = 1 + 0.5 * torch.sin(self.rows[:, :1] + torch.arange(b, device="cuda")).float()
        step = max(1, n // 1024)
        self.some = torch.arange(seed % step, n, step, device="cuda")
        left = self.rows[self.some]
        exact = TorchTiles(self.form, left, self.rows, self.origin, same=False, dtype=torch.float64)
        self.truth = [exact.product(block.double()) for block in (self.rough, self.smooth)]

    def tiles(self, scheme: Scheme) -> FusedTiles:
        """The fused product under one scheme."""
        return FusedTiles(self.form, self.rows, self.rows, self.origin, same=True, scheme=scheme)

    def errors(self, tiles: Any, launch: Launch | None = None) -> list[float]:
        """Relative errors on the random and on the smooth block, after poisoning the memory that will be reused."""
        out = []
        for block, truth in zip((self.rough, self.smooth), self.truth, strict=True):
            poison = torch.full((8 * padded(len(self.rows)) * 64,), float("nan"), device="cuda")
            del poison
            value = tiles.product(block, launch)
            assert bool(torch.isfinite(value).all()), "an entry of the product was not written, or is not finite"
            out.append(float((value[self.some].double() - truth).norm() / truth.norm()))
        return out


def special_functions(term: Term) -> int:
    """Exponentials and roots in one kernel entry."""
    seen: set[Term] = set()

    def walk(node: Term) -> None:
        if node not in seen:
            seen.add(node)
            for part in node.parts:
                walk(part)

    walk(term)
    return sum(isinstance(node, (Exp2, Root)) for node in seen)


def floor(case: Case, scheme: Scheme, b: int, limits: dict[str, float]) -> float:
    """Entries per second if the busiest unit were always busy: matrix units at their measured rate, or exponentials."""
    d, leaves = case.rows.shape[1], len(case.form.leaves)
    half = limits["float16_flop_per_s"]
    width = block_width(b, scheme)
    matrix = 2 * width * scheme.pieces**2 / half
    length = row_length(scheme, d)
    rates = {"f16x3": half, "tf32x3": limits["tf32_flop_per_s"] / 3, "difference": limits["float32_flop_per_s"]}
    dot_rate = rates[scheme.dot]
    matrix += leaves * (4 if scheme.dot == "difference" else 2) * length / dot_rate
    return 1 / max(matrix, special_functions(case.form.term) / limits["exponentials_per_s"])


def tune(tiles: FusedTiles, block: torch.Tensor, candidates: tuple[Launch, ...]) -> dict[Launch, float]:
    """Seconds per kernel entry of each launch that fits the chip: the median of three, on a few waves of programs."""
    width = block_width(block.shape[1], tiles.scheme)
    packed, _ = tiles.pack(block, width)
    chip = torch.cuda.get_device_properties(tiles.device).multi_processor_count
    found: dict[Launch, float] = {}
    for launch in candidates:
        rows = min(padded(tiles.n_left) // launch.rows, 2 * chip * PAD // launch.rows)
        try:
            tiles.launch(packed, width, launch, 1, limit=chip)
        except triton.runtime.errors.OutOfResources:
            continue
        spent = seconds(lambda one=launch, few=rows: tiles.launch(packed, width, one, 1, limit=few), repeats=3, warm=0)
        found[launch] = spent / (rows * launch.rows * padded(tiles.n_right))
    return found


def measure(
    case: Case, scheme: Scheme, launches: tuple[Launch, ...], limits: dict[str, float], b: int
) -> dict[str, Any]:
    """The fastest launch of a scheme on a case: rate, share of its floor, errors, registers."""
    tiles = case.tiles(scheme)
    found = tune(tiles, case.rough, launches)
    if not found:
        return {"scheme": f"{scheme.dot}/{scheme.pieces}", "failed": "no launch fits the chip"}
    launch = min(found, key=lambda each: found[each])
    spent = seconds(lambda: tiles.product(case.rough, launch), repeats=3, warm=1)
    rate = len(case.rows) ** 2 / spent
    bound = floor(case, scheme, b, limits)
    errors = case.errors(tiles, launch)
    return {
        "scheme": f"{scheme.dot}/{scheme.pieces}",
        "launch": f"{launch.rows}x{launch.columns}/{launch.warps}w/{launch.stages}s",
        "entries_per_s": rate,
        "floor": bound,
        "share": rate / bound,
        "error_rough": errors[0],
        "error_smooth": errors[1],
        "registers": getattr(tiles.compiled, "n_regs", None),
        "spills": getattr(tiles.compiled, "n_spills", None),
        "tried": {f"{k.rows}x{k.columns}/{k.warps}w/{k.stages}s": 1 / v for k, v in found.items()},
    }


def check(seed: int, limits: dict[str, float]) -> list[dict[str, Any]]:
    """Every kernel under the default scheme against float64, at an awkward size, before anything is timed."""
    out = []
    for d in (1, 10, 40, 130):
        for name, kernel in named_kernels(d).items():
            case = Case(6007, d, 5, kernel, seed)
            for precision in ("float32", "fast") if d == 10 else ("float32",):
                scheme = pick_scheme(case.form, case.rows, case.origin, precision)
                errors = case.errors(case.tiles(scheme))
                out.append({"d": d, "kernel": name, "mode": precision, "scheme": f"{scheme.dot}/{scheme.pieces}"})
                out[-1] |= {"error_rough": errors[0], "error_smooth": errors[1]}
                out[-1]["ok"] = max(errors) < (1e-2 if precision == "fast" else 1e-4)
    return out


def schemes(seed: int, limits: dict[str, float], deadline: float, n: int = 1 << 17) -> list[dict[str, Any]]:
    """Gaussian, d = 10: every scheme at block widths 16 and 64."""
    out = []
    for b in (16, 64):
        case = Case(n, 10, b, named_kernels(10)["gaussian"], seed)
        for index, scheme in enumerate(SCHEMES):
            if time.monotonic() < deadline:
                launches = WIDE_BLOCK if b == 64 else LONG if index < 2 else SHORT
                row = {"kernel": "gaussian", "d": 10, "b": b} | measure(case, scheme, launches, limits, b)
                print(row, flush=True)
                out.append(row)
    return out


def table(seed: int, limits: dict[str, float], deadline: float, n: int = 1 << 17) -> list[dict[str, Any]]:
    """Default schemes: Gaussian over d and block width, then every kernel at d = 10, block 16."""
    cases = [("gaussian", 10, b) for b in (1, 16, 32, 64)]
    cases += [(name, 10, 16) for name in named_kernels(10) if name != "gaussian"]
    cases += [("gaussian", d, b) for d in (1, 100, 300) for b in (16, 1, 64, 32)]
    out = []
    for name, d, b in cases:
        case = None
        for precision in ("float32", "fast") if name == "gaussian" and 16 in (b, d + 6) else ("float32",):
            if time.monotonic() < deadline:
                case = case or Case(n if d < 100 else n // 2, d, b, named_kernels(d)[name], seed + d)
                scheme = pick_scheme(case.form, case.rows, case.origin, precision)
                row = {"kernel": name, "d": d, "b": b, "mode": precision} | measure(case, scheme, SHORT, limits, b)
                print(row, flush=True)
                out.append(row)
    return out
