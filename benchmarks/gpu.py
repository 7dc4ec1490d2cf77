"""The GPU engine, checked and then timed: products, whole fits, opponents. Prints one table last, writes JSON.

    python benchmarks/gpu.py --section check ceilings schemes table --seconds 200

Needs an NVIDIA GPU, torch and triton. Every section starts from fresh random data (the seed is printed) and stops at
its time limit. JSON goes to $OUT/gpu.json, or to --json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch

_COLUMNS = {
    "what": "{}",
    "kernel": "{}",
    "d": "{}",
    "b": "{}",
    "n": "{}",
    "mode": "{}",
    "scheme": "{}",
    "launch": "{}",
    "entries_per_s": "{:.2e}",
    "floor": "{:.2e}",
    "share": "{:.0%}",
    "error_rough": "{:.1e}",
    "error_smooth": "{:.1e}",
    "registers": "{}",
    "spills": "{}",
    "seconds": "{:.3g}",
    "GiB": "{:.1f}",
    "products": "{}",
    "columns": "{}",
    "T": "{}",
    "dense_T": "{}",
    "same": "{}",
    "fit_gap": "{:.1e}",
    "times": "{:.0f}x",
    "bracket": "{}",
    "residual": "{:.1e}",
    "regret": "{:.1e}",
    "settled": "{}",
    "noise_std": "{:.4g}",
    "step_s": "{:.3g}",
    "all_steps_s": "{:.3g}",
    "predict_s": "{:.3g}",
    "warned": "{}",
    "value": "{:.3e}",
    "ok": "{}",
    "failed": "{}",
}


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Rows as a plain table with the columns that any of them has."""
    names = [name for name in _COLUMNS if any(name in row for row in rows)]
    cells = [[_COLUMNS[n].format(row[n]) if row.get(n) is not None else "" for n in names] for row in rows]
    widths = [max(len(line[i]) for line in [names, *cells]) for i in range(len(names))]
    print(f"\n== {title}")
    for line in [names, *cells]:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def run_section(name: str, seed: int, limits: dict[str, float], deadline: float) -> list[dict[str, Any]]:
    """One section's rows."""
    import gpu_products

    if name == "check":
        return gpu_products.check(seed, limits)
    if name == "schemes":
        return gpu_products.schemes(seed, limits, deadline)
    if name == "table":
        return gpu_products.table(seed, limits, deadline)
    import gpu_fits

    return gpu_fits.SECTIONS[name](seed, deadline)


def main() -> int:
    """Run the sections asked for; a product that is wrong ends the run before anything is timed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = ["check", "ceilings", "schemes", "table", "fits", "opponents", "predict"]
    parser.add_argument("--section", nargs="+", choices=known, default=known)
    parser.add_argument("--seconds", type=float, default=200.0, help="time limit of each section")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
    parser.add_argument("--json", default=None)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("benchmarks/gpu.py needs an NVIDIA GPU: torch sees none", file=sys.stderr)
        return 2
    from gpu_ceilings import ceilings

    started = time.monotonic()
    limits = ceilings()
    facts = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "seed": args.seed}
    results: dict[str, Any] = {"facts": facts, "ceilings": limits}
    target = Path(args.json or Path(os.environ.get("OUT", ".")) / "gpu.json")
    for name in [each for each in args.section if each != "ceilings"]:
        begun = time.monotonic()
        results[name] = run_section(name, args.seed, limits, begun + args.seconds)
        target.write_text(json.dumps(results, indent=1, default=str))
        print(f"[{name}: {time.monotonic() - begun:.0f} s, {time.monotonic() - started:.0f} s so far]", flush=True)
        target.write_text(json.dumps(results, indent=1, default=str))
        if name == "check" and not all(row["ok"] for row in results["check"]):
            show("check", results["check"])
            return 1
    print(f"\n{facts}")
    show("ceilings", [{"what": key, "value": value} for key, value in limits.items()])
    for name in args.section:
        if name in results and isinstance(results[name], list):
            show(name, results[name])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
