"""gpytorch's exact Gaussian process with conjugate gradients, as its documentation runs it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch


def exact_gp(x: Any, y: Any, new: Any, deadline: float, timed: Callable[..., Any], steps: int = 30) -> dict[str, Any]:
    """Thirty steps of Adam on the marginal likelihood, then predictions; cut off at the deadline."""
    import gpytorch

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc,unused-ignore]
        def __init__(self, x: Any, y: Any, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x, y, new = x.float(), y.float(), new.float()
    done = 0

    def train() -> Any:
        nonlocal done
        likelihood = gpytorch.likelihoods.GaussianLikelihood().to(x.device)
        model = Model(x, y, likelihood).to(x.device)
        model.covar_module.base_kernel.lengthscale = x.shape[1] ** 0.5
        model.train()
        likelihood.train()
        optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
        loss_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        for _ in range(steps):
            if time.monotonic() > deadline:
                break
            optimiser.zero_grad()
            loss = -loss_of(model(x), y)
            loss.backward()
            optimiser.step()
            done += 1
        return model, likelihood

    with gpytorch.settings.max_cholesky_size(800):
        (model, likelihood), spent, peak = timed(train)
        model.eval()
        likelihood.eval()

        def answer() -> Any:
            with torch.no_grad(), gpytorch.settings.fast_pred_var():
                return likelihood(model(new)).mean

        _, predicting, _ = timed(answer)
    noise = float(likelihood.noise.detach()) ** 0.5
    row = {"what": "gpytorch exact GP, CG", "n": len(x), "seconds": spent + predicting, "GiB": peak, "products": done}
    return row | {"predict_s": predicting, "noise_std": noise}
