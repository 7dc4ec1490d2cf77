"""The reference on the same GPU: every eigenpair in float64, decided by the package's own rule."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

import stopwise as sw
from stopwise.engine.gpu.plain_tiles import TorchTiles
from stopwise.filters import as_filter
from stopwise.kernels.forms import form_of
from stopwise.path import Path
from stopwise.spectrum import Density, Spectrum


class DenseAnswer:
    """The centred matrix of some rows on a device, its eigendecomposition, and what a rule decides on it."""

    def __init__(self, kernel: Any, x: Any, y: Any, rule: Any) -> None:
        n = len(x)
        tiles = TorchTiles(form_of(kernel), x, x, x.mean(0), same=True, dtype=torch.float64)
        gram = torch.cat([tiles.rows(i, min(i + 1024, n)) for i in range(0, n, 1024)]) / n
        gram = gram - gram.mean(0)
        gram = gram - gram.mean(1, keepdim=True)
        started = time.perf_counter()
        values, self.vectors = torch.linalg.eigh((gram + gram.T) / 2)
        if x.device.type == "cuda":
            torch.cuda.synchronize()
        self.eigh_seconds = time.perf_counter() - started
        self.centred = y - y.mean()
        self.coefficients = self.vectors.T @ self.centred
        kept = values.flip(0).clamp(min=0).cpu().numpy()
        density = Density(kept, np.ones_like(kept), float(n))
        largest = float(kept[0]) * (1 + 1e-13)
        spectrum = Spectrum(kept, None, density.trace, float(n), density, density, largest)
        self.path = Path(
            spectrum=spectrum,
            filter=as_filter("descent", "auto").bind(largest),
            coefficients=self.coefficients.flip(0).cpu().numpy(),
            energy=np.asarray(float(self.centred @ self.centred)),
            intercept=True,
        )
        self.rule = rule

    def stop(self, noise_std: float) -> sw.Stop:
        """Where the rule stops on all eigenvalues."""
        found: sw.Stop = self.rule.select(self.path, noise_std)
        return found

    def fit(self, step_sum: float) -> Any:
        """Fitted values less the mean of y, at a clock reading."""
        gains = self.path.filter.gain(self.path.spectrum.eigenvalues, step_sum)
        gains = torch.from_numpy(np.ascontiguousarray(gains[::-1])).to(self.vectors.device)
        return (self.vectors @ (gains * self.coefficients)).cpu().numpy()
