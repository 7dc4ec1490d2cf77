"""Whole fits, predictions and opponents on the GPU: sections `fits`, `opponents` and `predict` of benchmarks/gpu.py.

Standard normal rows, d = 10; a Gaussian kernel at their median distance, sqrt(2 d); noise of standard deviation 0.5;
radius 10. How many steps descent takes, and so how much is saved, depends on all of these: `steps` also times a second
setting in which it takes fewer.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gpu_dense import DenseAnswer

import stopwise as sw
from stopwise.engine.gpu.device_operator import Cuda, predict_on_device

D, NOISE, RADIUS = 10, 0.5, 10.0
KERNEL = sw.kernels.Gaussian((2 * D) ** 0.5)
Row = dict[str, Any]


def data(n: int, seed: int, device: str = "cuda", noise: float = NOISE) -> tuple[Any, Any]:
    """Fresh rows and responses on the device, float64."""
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.randn(n, D, generator=generator, device=device, dtype=torch.float64)
    truth = torch.sin(x[:, 0]) + 0.5 * torch.cos(x[:, 1] + x[:, 2]) + 0.3 * x[:, 3]
    return x, truth + noise * torch.randn(n, generator=generator, device=device, dtype=torch.float64)


def critical(kernel: Any = KERNEL, noise: float = NOISE, **settings: Any) -> sw.KernelGradientRegressor:
    """The estimator of the headline: Critical at a known radius and noise level."""
    rule = sw.rules.Critical(hilbert_radius=RADIUS)
    return sw.KernelGradientRegressor(kernel, rule=rule, noise_std=noise, solver="cuda", **settings)


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """A result, its seconds (all device work done) and the peak of GPU memory in GiB."""
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    if on_gpu:
        torch.cuda.synchronize()
    spent = time.perf_counter() - start
    return result, spent, torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0.0


def tell(row: Row) -> Row:
    """Print a row as soon as it is known: a run that is cut short keeps it."""
    print(row, flush=True)
    return row


def fit_row(what: str, n: int, model: Any, spent: float, peak: float) -> Row:
    """What a fit says about itself."""
    stop, sure = model.stop_, model.stop_.certainty
    return {
        "what": what,
        "n": n,
        "seconds": spent,
        "GiB": peak,
        "products": sure.products,
        "columns": sure.columns,
        "T": stop.iteration,
        "bracket": None if sure.bracket is None else "{:.6g}..{:.6g}".format(*sure.bracket),
        "residual": sure.estimate_residual,
        "regret": sure.regret,
        "settled": sure.settled,
        "noise_std": float(model.noise_std_),
    }


def guarded(what: str, n: int, work: Callable[[], Row]) -> Row:
    """A row, or what went wrong: one failure must not lose the others."""
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            row = work()
        if heard:
            row["warned"] = str(heard[0].message)[:120]
        return tell(row)
    except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the table
        return tell({"what": what, "n": n, "failed": f"{type(error).__name__}: {error}"[:300]})


def whole_fit(what: str, n: int, seed: int, make: Callable[[], Any], numpy: bool = False) -> Row:
    """One fit on fresh data, timed from data on the device (or, `numpy`, in host memory) to the finished model."""
    x, y = data(n, seed)
    if numpy:
        x, y = x.cpu().numpy(), y.cpu().numpy()
    model, spent, peak = timed(lambda: make().fit(x, y))
    return fit_row(what, n, model, spent, peak)


def equality(n: int, seed: int) -> list[Row]:
    """The stop and the fit beside float64 dense, decided by the same rule; and how much faster."""
    rows: list[Row] = []

    def compare() -> Row:
        x, y = data(n, seed)
        critical().fit(*data(n, seed + 1))
        rule = sw.rules.Critical(hilbert_radius=RADIUS)
        answer, dense_seconds, dense_peak = timed(lambda: DenseAnswer(KERNEL, x, y, rule))
        rows.append(tell({"what": "dense float64 eigh", "n": n, "seconds": answer.eigh_seconds, "GiB": dense_peak}))
        tell({"what": "dense whole", "n": n, "seconds": dense_seconds})
        stop = answer.stop(NOISE)
        fit = answer.fit(stop.step_sum)
        for name, settings in {"default": {}, "tol 1e-5": {"tol": 1e-5}, "fast": {"precision": "fast"}}.items():
            model, spent, peak = timed(lambda settings=settings: critical(**settings).fit(x, y))
            row = fit_row(f"critical, {name}", n, model, spent, peak)
            ours = model.path_.fit() - float(y.mean())
            row |= {"dense_T": stop.iteration, "same": stop.iteration == model.n_iter_}
            row |= {
                "fit_gap": float(np.linalg.norm(ours - fit) / np.linalg.norm(fit)),
                "times": answer.eigh_seconds / spent,
            }
            rows.append(tell(row))
        return {"what": "equality done", "n": n}

    done = guarded("equality", n, compare)
    return rows if "failed" not in done else [*rows, done]


def fits(seed: int, deadline: float, sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)) -> list[Row]:
    """Equality with dense, then whole fits: Critical with noise known, then the default rule and noise."""
    out = equality(20_000 if sizes[-1] > 20_000 else sizes[0], seed)
    for n in sizes:
        if time.monotonic() < deadline:
            if n > 200_000:  # warm-up: the same shapes are not needed, the same kernels are
                guarded("warm-up", 100_000, lambda: whole_fit("warm-up", 100_000, seed + 7, critical))
            out.append(guarded("critical", n, lambda n=n: whole_fit("critical", n, seed + n, critical)))
    n = sizes[-1]
    if time.monotonic() < deadline:
        out.append(
            guarded("critical, numpy", n, lambda: whole_fit("critical, numpy", n, seed + 1, critical, numpy=True))
        )
    for n in sizes[1:]:
        if time.monotonic() < deadline:

            def default() -> Any:
                return sw.KernelGradientRegressor(KERNEL)

            out.append(guarded("default rule", n, lambda n=n: whole_fit("default rule", n, seed + n, default)))
    return out


def steps(seed: int, deadline: float, n: int = 1_000_000) -> list[Row]:
    """The paper's own way: one product of width one and an update, T times; measured on a few, in two settings."""
    out = []
    for what, kernel, noise in (
        ("steps, median distance, noise 0.5", KERNEL, NOISE),
        ("steps, scale sqrt(d), noise 1", sw.kernels.Gaussian(D**0.5), 1.0),
    ):
        if time.monotonic() < deadline:
            work = lambda w=what, k=kernel, s=noise: descent(w, k, s, n, seed)  # noqa: E731
            out.append(guarded(what, n, work))
    return out


def descent(what: str, kernel: Any, noise: float, n: int, seed: int) -> Row:
    """A whole fit beside the time of its T steps."""
    critical(kernel, noise).fit(*data(min(n, 20_000), seed + 1, noise=noise))  # warm-up
    x, y = data(n, seed + n, noise=noise)
    model, spent, peak = timed(lambda: critical(kernel, noise).fit(x, y))
    operator = Cuda(kernel, x, centred=True).on_device
    target = (y - y.mean()).float()[:, None]
    step = float(1 / model.path_.spectrum.largest_bound)
    fit = 0 * target
    operator.multiply(target)

    def few() -> None:
        nonlocal fit
        for _ in range(3):
            fit = fit + step * operator.multiply(target - fit)

    _, three, _ = timed(few)
    total = three / 3 * model.n_iter_
    row = fit_row(what, n, model, spent, peak)
    return row | {"step_s": three / 3, "all_steps_s": total, "times": total / spent}


def opponents(seed: int, deadline: float, n: int = 50_000, n_steps: int = 1_000_000) -> list[Row]:
    """The T steps, and gpytorch's exact GP with conjugate gradients, on the same GPU and data."""
    from gpu_gpytorch import exact_gp

    out = steps(seed, deadline, n_steps)

    def ours() -> Row:
        x, y = data(n + 1000, seed + 5)
        sw.KernelGradientRegressor(KERNEL, solver="cuda").fit(x[:n], y[:n])
        model, spent, peak = timed(lambda: sw.KernelGradientRegressor(KERNEL, solver="cuda").fit(x[:n], y[:n]))
        _, predicting, _ = timed(lambda: model.predict(x[n:], return_std=True))
        return fit_row("stopwise, default rule", n, model, spent, peak) | {"predict_s": predicting}

    out.append(guarded("stopwise, default rule", n, ours))
    for size in (n // 5, n):
        if time.monotonic() < deadline:
            x, y = data(size + 1000, seed + 5)
            work = lambda x=x, y=y, size=size: exact_gp(x[:size], y[:size], x[size:], deadline, timed)  # noqa: E731
            out.append(guarded("gpytorch exact GP, CG", size, work))
            torch.cuda.empty_cache()
    return out


def predict(seed: int, deadline: float, n: int = 1_000_000, n_std: int = 1000) -> list[Row]:
    """As many predictions as training rows, tensors to tensors; a few standard deviations."""

    def run() -> Row:
        x, y = data(n, seed + 3)
        new = data(n, seed + 4)[0]
        model = critical(tol=0.05).fit(x, y)
        model.predict(new[:1000])
        values, spent, peak = timed(lambda: model.predict(new))
        _, with_std, _ = timed(lambda: model.predict(new[:n_std], return_std=True))
        dual = torch.from_numpy(model.dual_coef_).to(x.device)
        exact = predict_on_device(KERNEL, new[:512], x, dual, precision="float64")
        gap = float(((values[:512] - model.intercept_ - exact).norm() / exact.norm()).cpu())
        return {"what": "predictions", "n": n, "seconds": spent, "GiB": peak, "fit_gap": gap, "predict_s": with_std}

    return [guarded("predictions", n, run)] if time.monotonic() < deadline else []


SECTIONS: dict[str, Callable[[int, float], list[Row]]] = {"fits": fits, "opponents": opponents, "predict": predict}
