"""The store of tall blocks on a device does what the numpy store does."""

import numpy as np
import pytest

from stopwise import kernels
from stopwise.engine.operators import Dense
from stopwise.engine.spectrum.block_krylov import BlockKrylov
from stopwise.spectrum import Basis

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'stopwise[torch]'")
pytestmark = pytest.mark.torch

from stopwise.engine.gpu.device_operator import Cuda  # noqa: E402
from stopwise.engine.gpu.device_store import SLAB, TorchStore  # noqa: E402

ROUNDING = {"float64": 1e-12, "float32": 2e-6}


def made(rng, precision, n=150, columns=0, centred=False):
    operator = Cuda(kernels.Gaussian(1.5), rng.normal(size=(n, 2)), precision=precision, centred=centred, device="cpu")
    store = TorchStore(operator.on_device)
    held = np.linalg.qr(rng.normal(size=(n, columns)))[0] if columns else np.empty((n, 0))
    if columns:
        store.append(torch.from_numpy(held).to(store.dtype))
    return store, held


@pytest.mark.parametrize("precision", ROUNDING)
def test_inner_and_remove_are_products_with_the_columns_held(rng, precision):
    store, held = made(rng, precision, columns=SLAB + 9)
    block = rng.normal(size=(150, 3))
    tensor = torch.from_numpy(block).to(store.dtype)
    small = store.inner(tensor)
    assert np.allclose(small, held.T @ block, atol=10 * ROUNDING[precision])
    rest = store.remove(tensor, small)
    assert np.allclose(rest, block - held @ (held.T @ block), atol=10 * ROUNDING[precision])


@pytest.mark.parametrize("precision", ROUNDING)
@pytest.mark.parametrize("smallest", [1.0, 1e-4])
def test_a_factor_is_orthonormal_and_gives_the_block_back(rng, precision, smallest):
    store, _ = made(rng, precision)
    block = torch.from_numpy(rng.normal(size=(150, 6)) @ np.diag(np.geomspace(1, smallest, 6))).to(store.dtype)
    unit, r = store.factor(block)
    assert np.allclose(unit.T.double() @ unit.double(), np.eye(6), atol=ROUNDING[precision])
    assert np.allclose(unit.double() @ torch.from_numpy(r), block.double(), atol=ROUNDING[precision])


def test_a_direction_that_is_not_there_has_size_zero(rng):
    store, _ = made(rng, "float32")
    column = torch.from_numpy(rng.normal(size=(150, 1))).float()
    unit, r = store.factor(torch.cat([column, column, 0 * column], 1))
    sizes = np.linalg.svd(r)[1]
    assert sizes[0] > 1
    assert np.all(sizes[1:] < 1e-6)
    assert bool(torch.isfinite(unit).all())


@pytest.mark.parametrize("precision", ROUNDING)
def test_a_basis_on_the_device_answers_like_one_in_memory(rng, precision):
    store, held = made(rng, precision, columns=SLAB + 5)
    rotation = np.linalg.qr(rng.normal(size=(SLAB + 5, SLAB + 5)))[0][:, :20]
    ours, truth = store.basis(SLAB + 5, rotation), Basis(held, rotation)
    vector, weights = rng.normal(size=150), rng.random((20, 3))
    close = {"atol": 20 * ROUNDING[precision]}
    assert np.allclose(ours.combine(weights), truth.combine(weights), **close)
    assert np.allclose(ours.coordinates(vector), truth.coordinates(vector), **close)
    for shape in (weights, weights[:, 0]):
        assert np.allclose(ours.squared(shape, tile=40), truth.squared(shape), **close)
    assert len(ours.rows) == 150
    assert np.allclose(np.asarray(ours.rows), held, **close)


def test_a_centred_start_has_no_constant_part_and_the_response_first(rng):
    store, _ = made(rng, "float64", centred=True)
    response = rng.normal(size=(150, 1))
    block, scales = store.start(response - response.mean(), 4, seed=1)
    assert block.shape == (150, 5)
    assert np.allclose(block.sum(0), 0, atol=1e-12)
    assert np.allclose(block[:, 0] * scales[0], response[:, 0] - response.mean())
    again, _ = store.start(response - response.mean(), 4, seed=1)
    assert torch.equal(block, again)


@pytest.mark.parametrize("precision", ROUNDING)
def test_the_space_on_a_device_finds_the_eigenvalues(rng, precision):
    x = rng.normal(size=(200, 3))
    kernel = kernels.Gaussian(1.5)
    dense = np.linalg.eigvalsh(Dense(kernel(x)).multiply(np.eye(200)))[::-1]
    operator = Cuda(kernel, x, precision=precision, device="cpu").on_device
    space = BlockKrylov(operator, TorchStore(operator), rng.normal(size=(200, 1)), 15, precision=1e-9)
    for _ in range(6):
        space.grow()
    values, _, residuals = space.ritz()
    assert np.allclose(values[:30], dense[:30], rtol=0, atol=5 * ROUNDING[precision] * dense[0])
    assert np.all(residuals[:20] < 1e-3 * values[:20])
