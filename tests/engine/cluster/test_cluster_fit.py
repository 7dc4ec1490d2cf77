"""Two worker processes: the same fit as in memory, whatever the chunks, even if a worker is killed."""

import json
import logging
import os
import signal
import subprocess
import sys
from functools import partial

import jsonschema
import numpy as np
import pandas as pd
import pytest
from helpers.commands import SCHEMAS

import stopwise as sw
from stopwise.cli.out_of_core import fit_folder
from stopwise.engine.cluster.chunks import PartitionError
from stopwise.engine.cluster.cluster_operator import ChunkedGram
from stopwise.estimators.fitted import fitted_of
from stopwise.tables import Roles

pytest.importorskip("distributed", reason='needs the dask extra: pip install "stopwise[dask]"')
pytestmark = [
    pytest.mark.dask,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    # dask and its serialisers run ahead of, or behind, pandas and numpy
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

N = 900
NAMES = ["a", "b", "c"]
KERNEL = sw.kernels.Matern(0.4, 1.5)
CHUNKS = [(N,), (300, 300, 300), (7, 800, 93), (90,) * 10]


def data(seed=1, n=N):
    rng = np.random.default_rng(seed)
    covariates = rng.uniform(size=(n, 3))
    return covariates, 3 + np.sin(5 * covariates[:, 0]) + covariates[:, 1] ** 2 + 0.3 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as local:
        yield local


@pytest.fixture
def client(cluster):
    from distributed import Client

    with Client(cluster) as connected:
        connected.wait_for_workers(2, timeout=60)
        yield connected


def chunked(values, sizes):
    import dask.array as da

    return da.from_array(values, chunks=(sizes,) if values.ndim == 1 else (sizes, (values.shape[1],)))


@pytest.fixture(scope="module")
def in_memory():
    covariates, y = data()
    weights = np.random.default_rng(2).uniform(0.5, 2.0, N)
    return sw.KernelGradientRegressor(KERNEL, solver="nystrom", n_landmarks=80).fit(covariates, y, weights), weights


# ---- landmarks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["dask", "krylov"])
def test_weights_have_no_unit_on_a_cluster(client, solver):
    covariates, y = data(n=300)
    sizes, weights = (100, 200), np.random.default_rng(2).uniform(0.2, 1.0, 300) ** -2.0
    settings = {"solver": solver} | ({"n_landmarks": 60} if solver == "dask" else {})
    rule = sw.rules.Critical(hilbert_radius="self")

    def fit(given):
        model = sw.KernelRidgeRegressor(KERNEL, rule=rule, **settings)
        return model.fit(
            chunked(covariates, sizes), chunked(y, sizes), None if given is None else chunked(given, sizes)
        )

    for one, other in ((None, np.full(300, 2.0)), (weights / weights.mean(), 1000 * weights)):
        first, second = fit(one), fit(other)
        np.testing.assert_allclose(second.predict(covariates), first.predict(covariates), rtol=1e-8)
        assert second.noise_std_ == pytest.approx(first.noise_std_, rel=1e-8)


@pytest.mark.parametrize("sizes", CHUNKS, ids=lambda sizes: f"{len(sizes)} chunks")
def test_landmark_fits_do_not_depend_on_chunks(client, in_memory, sizes):
    covariates, y = data()
    whole, weights = in_memory
    fitted = sw.KernelGradientRegressor(KERNEL, n_landmarks=80)
    fitted.fit(chunked(covariates, sizes), chunked(y, (450, 450)), chunked(weights, sizes))
    assert fitted.solver_ == "dask"
    assert fitted.stop_.iteration == whole.stop_.iteration
    np.testing.assert_array_equal(fitted.X_fit_, whole.X_fit_)
    assert np.abs(fitted.predict(covariates) - whole.predict(covariates)).max() <= 1e-8
    np.testing.assert_allclose(fitted.stop_.evidence.lowest, whole.stop_.evidence.lowest, rtol=1e-9)


def test_predictions_come_back_lazily_in_the_chunks_of_their_rows(client, in_memory):
    import dask.array as da

    covariates, _ = data(3)
    whole, _ = in_memory
    mean, std = whole.predict(chunked(covariates, (400, 500)), return_std=True)
    assert isinstance(mean, da.Array)
    assert mean.chunks == ((400, 500),)
    wanted = whole.predict(np.clip(covariates, *whole.feature_range_), return_std=True)
    inside = np.all((covariates >= whole.feature_range_[0]) & (covariates <= whole.feature_range_[1]), axis=1)
    np.testing.assert_allclose(mean.compute()[inside], wanted[0][inside], rtol=1e-12)
    np.testing.assert_allclose(std.compute()[inside], wanted[1][inside], rtol=1e-12)


def test_leave_one_out_takes_its_second_pass_over_chunks(client):
    covariates, y = data(4)
    make = partial(sw.KernelRidgeRegressor, KERNEL, rule="loo", n_landmarks=40)
    whole = make(solver="nystrom").fit(covariates, y)
    fitted = make().fit(chunked(covariates, (500, 400)), chunked(y, (500, 400)))
    assert fitted.step_sum_ == pytest.approx(whole.step_sum_, rel=1e-6)


def test_dataframes_keep_their_column_names(client):
    import dask.dataframe as dd

    covariates, y = data(5)
    frame = dd.from_pandas(pd.DataFrame(covariates, columns=NAMES).assign(y=y), npartitions=3)
    fitted = sw.KernelGradientRegressor(KERNEL, n_landmarks=40).fit(frame[NAMES], frame["y"])
    assert list(fitted.feature_names_in_) == NAMES
    whole = sw.KernelGradientRegressor(KERNEL, n_landmarks=40, solver="nystrom").fit(covariates, y)
    np.testing.assert_allclose(fitted.predict(frame[NAMES]).compute(), whole.predict(covariates), atol=1e-8)


def test_numpy_arrays_take_the_cluster_when_asked(client):
    covariates, y = data(6)
    several = np.column_stack([y, covariates[:, 2]])
    fitted = sw.KernelGradientRegressor(KERNEL, solver="dask", n_landmarks=40).fit(covariates, several)
    whole = sw.KernelGradientRegressor(KERNEL, solver="nystrom", n_landmarks=40).fit(covariates, several)
    np.testing.assert_allclose(fitted.predict(covariates), whole.predict(covariates), atol=1e-8)
    assert len(fitted.stop_) == 2


# ---- exact products -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(260,), (5, 200, 55)], ids=lambda sizes: f"{len(sizes)} chunks")
def test_exact_fits_do_not_depend_on_chunks(client, sizes):
    covariates, y = data(7, 260)
    make = partial(sw.KernelGradientRegressor, KERNEL, solver="krylov", rule="gcv", tol=0.2)
    whole, fitted = make().fit(covariates, y), make().fit(chunked(covariates, sizes), chunked(y, (130, 130)))
    assert fitted.stop_.iteration == whole.stop_.iteration
    assert np.abs(fitted.predict(covariates) - whole.predict(covariates)).max() <= 1e-8


# ---- faults ---------------------------------------------------------------------------------------------------------


def dying(block, log, turn):
    """The block; but the worker that takes this turn is killed, by its process id, in the middle of its task."""
    handle = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(handle, b"x")
    if os.lseek(handle, 0, os.SEEK_CUR) == turn:
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(handle)
    return block


def test_killing_a_worker_mid_fit_costs_time_and_not_the_result(client, in_memory, tmp_path):
    covariates, y = data()
    whole, weights = in_memory
    sizes, before = (90,) * 10, set(client.run(os.getpid).values())
    # the first ten turns bring the sample home; the fifteenth is in the pass that sums
    fatal = chunked(covariates, sizes).map_blocks(dying, log=str(tmp_path / "turns"), turn=15, dtype=float)
    fitted = sw.KernelGradientRegressor(KERNEL, n_landmarks=80)
    fitted.fit(fatal, chunked(y, sizes), chunked(weights, sizes))
    client.wait_for_workers(2, timeout=60)
    assert len(before - set(client.run(os.getpid).values())) == 1
    assert fitted.stop_.iteration == whole.stop_.iteration
    assert np.abs(fitted.predict(covariates) - whole.predict(covariates)).max() <= 1e-8


def test_killing_a_worker_during_exact_products_gives_the_same_fit(client, monkeypatch):
    covariates, y = data(8, 200)
    make = partial(sw.KernelGradientRegressor, KERNEL, solver="krylov", rule="gcv", tol=0.2)
    whole = make().fit(covariates, y)
    pid, multiply, calls = next(iter(client.run(os.getpid).values())), ChunkedGram._gram_product, []

    def deadly(self, block):
        calls.append(len(calls))
        if len(calls) == 3:
            os.kill(pid, signal.SIGKILL)
        return multiply(self, block)

    monkeypatch.setattr(ChunkedGram, "_gram_product", deadly)
    fitted = make().fit(chunked(covariates, (100, 100)), chunked(y, (100, 100)))
    assert len(calls) >= 3
    client.wait_for_workers(2, timeout=60)
    assert pid not in client.run(os.getpid).values()
    assert np.abs(fitted.predict(covariates) - whole.predict(covariates)).max() <= 1e-8


def write_folder(folder, kind, spoil=None, index=False):
    covariates, y = data(9)
    for i, rows in enumerate(np.array_split(np.arange(N), 3)):
        frame = pd.DataFrame(covariates[rows], columns=NAMES, index=rows[::-1] if index else None).assign(y=y[rows])
        frame = spoil(frame) if spoil is not None and i == 1 else frame
        path = folder / f"part-{i}.{kind}"
        frame.to_parquet(path) if kind == "parquet" else frame.to_csv(path, index=index)


SPOILT = {
    "NaN": (
        lambda frame: frame.assign(b=frame["b"].where(frame.index != 5)),
        "column 'b' holds NaN or infinity in 1 of",
    ),
    "missing": (lambda frame: frame.drop(columns="b"), "has no column 'b'"),
    "text": (lambda frame: frame.assign(b="x"), "column 'b' is"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_bad_file_is_named_in_the_error_and_leaves_no_fit(client, tmp_path, name):
    spoil, message = SPOILT[name]
    write_folder(tmp_path, "parquet", spoil)
    model = sw.KernelGradientRegressor(KERNEL, solver="dask", n_landmarks=20)
    with pytest.raises(PartitionError, match=r"partition 1 \(part-1.parquet.*" + message):
        fit_folder(model, tmp_path, Roles("y"))
    assert not hasattr(model, "dual_coef_")


def test_a_bad_partition_of_a_collection_is_named(client):
    covariates, y = data(10)
    covariates[700, 2] = np.nan
    with pytest.raises(PartitionError, match="partition 2: feature 2 of X holds NaN or infinity in 1 of 300 rows"):
        sw.KernelGradientRegressor(KERNEL, n_landmarks=20).fit(chunked(covariates, (300,) * 3), chunked(y, (300,) * 3))


def test_chunks_that_do_not_match_say_so(client):
    covariates, y = data(11)
    rows = chunked(covariates, (450, 450))
    with pytest.raises(ValueError, match="X has 900 rows and y has 899"):
        sw.KernelGradientRegressor(KERNEL).fit(rows, chunked(y[1:], (899,)))
    with pytest.raises(ValueError, match='take solver="dask"'):
        sw.KernelGradientRegressor(KERNEL, solver="dense").fit(rows, y)


# ---- folders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("index", [False, True])
def test_a_folder_is_fitted_like_its_rows_in_memory(client, tmp_path, kind, index):
    """An index that pandas writes beside the columns numbers rows and is no feature, as for tables read whole."""
    write_folder(tmp_path, kind, index=index)
    covariates, y = data(9)
    model = fit_folder(sw.KernelGradientRegressor(KERNEL, solver="dask", n_landmarks=40), tmp_path, Roles("y"))
    whole = sw.KernelGradientRegressor(KERNEL, solver="nystrom", n_landmarks=40).fit(covariates, y)
    assert fitted_of(model).n_given == N
    assert list(model.feature_names_in_) == NAMES
    frame = pd.DataFrame(covariates, columns=NAMES)
    assert np.abs(model.predict(frame) - whole.predict(covariates)).max() <= 1e-8


def command(*words, **settings):
    return subprocess.run(
        [sys.executable, "-m", "stopwise", *map(str, words)], capture_output=True, text=True, **settings
    )


def test_the_command_line_fits_a_folder_on_a_cluster_of_its_own_and_writes_all_or_nothing(tmp_path):
    folder = tmp_path / "table"
    folder.mkdir()
    write_folder(folder, "parquet")
    out, page = tmp_path / "model.stopwise", tmp_path / "report.html"
    words = ["fit", folder, "--target", "y", "--solver", "dask", "--landmarks", "40", "--kernel", "matern32"]
    done = command(*words, "--length-scale", "0.4", "--out", out, "--report", page, "--json", timeout=120)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert "this fit kept no rows" in page.read_text()
    page.unlink()
    jsonschema.validate(result, json.loads((SCHEMAS / "fit.json").read_text()), jsonschema.Draft202012Validator)
    assert (result["rows"], result["landmarks"], result["solver"]) == (N, 40, "dask")
    assert result["bracket"] is None
    assert result["settled"] is True
    before = out.read_bytes()
    write_folder(folder, "parquet", SPOILT["missing"][0])
    failed = command(*words, "--length-scale", "0.4", "--out", out, timeout=120)
    assert failed.returncode == 2
    assert "partition 1 (part-1.parquet" in failed.stderr.splitlines()[-1]
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.stopwise", "table"]


def test_a_folder_with_dates_says_that_a_table_read_whole_may_have_them(tmp_path):
    pd.DataFrame({"when": ["2024-01-01", "2024-01-02"], "y": [1.0, 2.0]}).to_csv(tmp_path / "a.csv", index=False)
    done = command("fit", tmp_path, "--target", "y", "--solver", "dask", timeout=120)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("(without --solver dask), which turns text and dates into features")
