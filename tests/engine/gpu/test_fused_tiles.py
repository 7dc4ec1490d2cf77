"""Fused Triton kernels: run in Triton's interpreter, and compiled for a GPU that need not be there."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'stopwise[torch]'")
triton = pytest.importorskip("triton", reason="triton is not installed: it comes with torch for NVIDIA GPUs")
pytestmark = pytest.mark.torch

# The interpreter is chosen before triton is imported, so it gets a process of its own.
PROGRAM = """
import json, torch
from stopwise import kernels
from stopwise.kernels.forms import form_of
from stopwise.engine.gpu.fused_source import Scheme
from stopwise.engine.gpu.fused_tiles import FusedTiles, Launch
from stopwise.engine.gpu.plain_tiles import TorchTiles

generator = torch.Generator().manual_seed(7)
draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
gaussian, distances = kernels.Gaussian(2.0), ("difference", 2)
double = ("double", 1)
cases = [
    (gaussian, 3, ("f16x3", 2)), (gaussian, 3, ("f16x3", 1)), (gaussian, 3, ("tf32x3", 2)),
    (gaussian, 3, ("f16x3", 2, True)), (kernels.ProductLaplace(2.0), 3, ("difference", 2, True)),
    (gaussian, 1, distances), (kernels.Gaussian(10.0), 130, ("f16x3", 2)),
    (kernels.Laplace(2.0), 3, distances), (kernels.Laplace(2.0), 3, ("f16x3", 2)),
    (kernels.Matern(2.0, 2.5), 3, ("f16x3", 2)), (kernels.Polynomial(3), 3, ("f16x3", 2)),
    (kernels.Gaussian(1.0), 130, ("f16x3", 2)), (kernels.Laplace(2.0) * kernels.Polynomial(2) + 1, 2, distances),
    (0.5 * gaussian + kernels.Linear() * kernels.Matern(2.0, 1.5) + 1, 3, ("f16x3", 2)),
    (kernels.ProductLaplace(2.0), 3, distances), (kernels.ProductMatern(2.0), 9, distances),
    (kernels.ProductLaplace(40.0), 40, distances), (kernels.ProductMatern(9.0), 40, distances),
    (0.6 * kernels.ProductMatern(2.0) + kernels.ProductLaplace(1.0) * gaussian, 3, distances),
    (gaussian, 3, double), (kernels.Matern(2.0, 1.5), 3, double), (kernels.ProductLaplace(2.0), 3, double),
    (kernels.ProductMatern(9.0), 40, double), (kernels.Linear() * kernels.Matern(2.0, 1.5) + 1, 3, double),
]
limits = {"f16x3": 2e-6, "tf32x3": 2e-6, "difference": 2e-6, "double": 1e-14}
out = []
for kernel, d, names in cases:
    # With d = 130 and length scale 1 nothing but the diagonal is above the smallest float16.
    for same in (True,) if kernel == kernels.Gaussian(1.0) else (True, False):
        left = draw(70, d) + 3
        right = left if same else draw(90, d) + 3
        block, origin, form = draw(len(right), 5), left.mean(0), form_of(kernel)
        truth = TorchTiles(form, left, right, origin, same=same, dtype=torch.float64).product(block)
        fused = FusedTiles(form, left, right, origin, same=same, scheme=Scheme(*names))
        gap = (fused.product(block, Launch(64, 64)).double() - truth).norm() / truth.norm()
        limit = 2e-3 if names[:2] == ("f16x3", 1) else limits[names[0]]
        out.append([f"{kernel.name} d={d} {names} same={same}", float(gap), limit])
print(json.dumps(out))
"""


def test_interpreted_kernels_agree_with_float64_tiles():
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=600)
    if "only 0-dimensional arrays" in done.stderr or "only length-1 arrays" in done.stderr:
        pytest.skip("this Triton's interpreter does not work with this numpy")
    assert done.returncode == 0, done.stderr
    wrong = [case for case in json.loads(done.stdout.splitlines()[-1]) if not case[1] < case[2]]
    assert not wrong
