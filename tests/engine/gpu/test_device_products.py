"""Products on a device, with torch on the CPU: the same matrix as `Dense`, whatever computes it."""

import numpy as np
import pytest

from stopwise import kernels
from stopwise.engine.operators import Dense
from stopwise.kernels.forms import NoForm, form_of

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'stopwise[torch]'")
pytestmark = pytest.mark.torch

from stopwise._support.torch import MissingDevice, pick_device  # noqa: E402
from stopwise.engine.gpu.device_operator import Cross, Cuda, predict_on_device, rounding_error  # noqa: E402
from stopwise.engine.gpu.packed_rows import snapped  # noqa: E402
from stopwise.engine.gpu.plain_tiles import TorchTiles  # noqa: E402

FUSED = [
    kernels.Gaussian(1.3),
    kernels.Gaussian((0.7, 1.0, 2.5)),
    kernels.Laplace(2.0),
    kernels.Matern(1.1, 0.5),
    kernels.Matern(1.1, 1.5),
    kernels.Matern(1.1, 2.5),
    kernels.Polynomial(3),
    kernels.Linear(),
    kernels.Constant(2.0),
    2.5 * kernels.Gaussian(1.0) + kernels.Linear() * kernels.Laplace(3.0) + 0.3,
    0.1 * (kernels.Polynomial(2) * kernels.Matern(2.0, 1.5)),
    kernels.ProductLaplace((0.7, 1.0, 2.5)),
    kernels.ProductMatern((0.7, 1.0, 2.5)),
    0.6 * kernels.ProductMatern(2.0) + 0.4 * kernels.ProductLaplace(1.0) * kernels.Gaussian(1.3),
]
TOLERANCE = {"float64": 1e-13, "float32": 3e-6}


def gap(value, truth):
    return np.linalg.norm(np.asarray(value) - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize("kernel", FUSED, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("precision", TOLERANCE)
def test_a_product_on_the_device_equals_the_dense_one(kernel, precision, rng):
    x, block = rng.normal(size=(83, 3)) + 4, rng.normal(size=(83, 5))
    operator = Cuda(kernel, x, precision=precision, device="cpu")
    truth = Dense(kernel(x)).multiply(block)
    assert gap(operator.multiply(block), truth) < TOLERANCE[precision]
    assert gap(operator.on_device.multiply(torch.from_numpy(block)), truth) < TOLERANCE[precision]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("precision", TOLERANCE)
def test_weights_centring_trace_and_frobenius_norm_are_those_of_dense(weighted, centred, precision, rng):
    x, block = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    weights = rng.integers(1, 5, 60).astype(float) if weighted else None
    kernel, tolerance = kernels.Matern(1.5, 1.5), TOLERANCE[precision]
    dense = Dense(kernel(x), weights=weights, centred=centred)
    operator = Cuda(kernel, x, weights=weights, centred=centred, precision=precision, device="cpu")
    assert gap(operator.on_device.multiply(torch.from_numpy(block)), dense.multiply(block)) < tolerance
    assert operator.on_device.trace == pytest.approx(dense.trace, rel=tolerance)
    assert operator.on_device.square_sum == pytest.approx(dense.square_sum, rel=5 * tolerance)
    assert gap(operator.mean_image, dense.mean_image) < tolerance


def test_a_block_wider_than_the_widest_is_multiplied_in_parts(rng):
    x, block = rng.normal(size=(40, 2)), rng.normal(size=(40, 150))
    operator = Cuda(kernels.Gaussian(), x, precision="float64", device="cpu")
    assert gap(operator.multiply(block), Dense(kernels.Gaussian()(x)).multiply(block)) < 1e-13


def test_predictions_take_and_give_tensors_or_arrays(rng):
    x, new, dual = rng.normal(size=(50, 3)), rng.normal(size=(31, 3)), rng.normal(size=(50, 2))
    kernel = kernels.Gaussian(1.5)
    truth = kernel(new, x) @ dual
    assert gap(predict_on_device(kernel, new, x, dual, precision="float64", device="cpu"), truth) < 1e-13
    tensor = predict_on_device(kernel, *(torch.from_numpy(each) for each in (new, x, dual)), rows_at_once=10)
    assert isinstance(tensor, torch.Tensor)
    assert gap(tensor, truth) < 3e-6
    assert predict_on_device(kernel, new, x, dual[:, 0], device="cpu").shape == (31,)


def test_memory_that_runs_out_in_flight_halves_the_tile_and_goes_on(rng, monkeypatch):
    x = torch.from_numpy(rng.normal(size=(70, 2)))
    tiles = TorchTiles(form_of(kernels.Gaussian()), x, x, x.mean(0), same=True, dtype=torch.float64)
    whole, rows = tiles.product(torch.eye(70)), tiles.rows

    def short_of_memory(first, last):
        if last - first > 9:
            raise torch.OutOfMemoryError("no room")
        return rows(first, last)

    monkeypatch.setattr(tiles, "rows", short_of_memory)
    assert torch.equal(tiles.product(torch.eye(70)), whole)
    assert tiles.tile <= 9


def test_a_kernel_without_a_device_form_is_an_error_that_names_it(rng):
    with pytest.raises(NoForm, match="sobolev1"):
        Cuda(kernels.Sobolev(1), rng.random((5, 1)), device="cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_asking_for_a_gpu_where_there_is_none_names_what_is_missing():
    with pytest.raises(MissingDevice, match=r"needs an NVIDIA GPU.*CUDA"):
        pick_device()


def test_a_rough_kernel_is_exact_on_the_diagonal(rng):
    x = torch.from_numpy(rng.normal(size=(30, 3)) * 100)
    cross = Cross(form_of(kernels.Laplace()), x, x, x.mean(0), same=True, precision="float64")
    assert torch.equal(torch.diagonal(cross.product(torch.eye(30))), torch.ones(30, dtype=torch.float64))


@pytest.mark.parametrize("kernel", [kernels.ProductLaplace((0.7, 1.0, 2.5)), kernels.ProductMatern(1.3)], ids=str)
def test_moved_rows_have_sums_of_differences_that_float32_holds_exactly(kernel, rng):
    rows = torch.from_numpy(rng.normal(size=(60, 3)) + 4)
    origin, form = rows.mean(0), form_of(kernel)
    moved = snapped(form, rows, origin)
    assert float((moved - rows).abs().max()) < 1e-6 * 2.5
    assert torch.equal(snapped(form, moved, origin), moved)
    leaf = form.leaves[0]
    at = leaf.scaled(moved, origin)
    apart = (at[:, None] - at[None, :]).abs()
    single = (at.float()[:, None] - at.float()[None, :]).abs()
    near = apart.sum(2) < 16
    assert near.sum() > 2_000
    total = single[:, :, 2] + single[:, :, 0] + single[:, :, 1]
    assert torch.equal(total[near], apart.sum(2)[near].float())
    torch.testing.assert_close(total[near].double(), apart.sum(2)[near], rtol=0, atol=1e-13)


def test_rounding_is_measured_as_the_length_of_a_row_of_errors(rng):
    x = rng.normal(size=(700, 3))
    exact, fast = (Cuda(kernels.Gaussian(1.0), x, precision="float64", device="cpu") for _ in range(2))
    assert rounding_error(fast, exact, 0) < 1e-10
    errors = torch.from_numpy(1e-5 * rng.normal(size=(700, 700)))
    product = fast.cross.product
    fast.cross.product = lambda block: product(block) + errors @ block.double()
    assert rounding_error(fast, exact, 0) == pytest.approx(2 * 1e-5 * np.sqrt(700), rel=0.5)  # the largest of 500
