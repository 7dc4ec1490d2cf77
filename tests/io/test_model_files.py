"""Model files: exact, safe to open, whole or absent."""

import json
import os
import signal
import stat
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stopwise as sw
from stopwise.exceptions import StopwiseWarning
from stopwise.io import CannotSave, ModelFileError, model, read_model
from stopwise.io.codec import Decoder, Encoder, pack, unpack
from stopwise.io.container import read_container, write_container

k = sw.kernels
ESTIMATORS = [sw.KernelGradientRegressor, sw.KernelRidgeRegressor]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)
ONE_FEATURE = [
    k.Sobolev(1),
    k.Sobolev(2, anchored=False, interval=(-1.0, 3.0)),
    k.Sobolev(1, interval="auto"),
    k.PeriodicSobolev(3, interval=(0.0, 2.0)),
    0.5 * k.Sobolev(2) + 2,
]
SEVERAL = [
    k.Gaussian(0.4),
    k.Gaussian((0.3, 0.8)),
    k.Laplace("auto"),
    k.Matern((1.0, 2.0), smoothness=2.5),
    k.Matern(0.7, smoothness=0.5),
    k.Polynomial(3),
    k.Linear(),
    2.5 * (k.Gaussian(0.3) * k.Matern(1.0) + k.Linear()) * k.Laplace((0.5, 2.0)) + 3,
    "auto",
]


def rows(rng, features, order="C", dtype=np.float64):
    X = np.array(rng.uniform(size=(50, features)), dtype=dtype, order=order)
    return X, np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=50)


def assert_same(left, right, X):
    """Every number that a caller can ask for is the same to the last bit."""
    for one, other in zip(left.predict(X, return_std=True), right.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)
    readings = [0.0, 0.7, 12.0, *np.atleast_1d(left.step_sum_)]
    for ask in ("fit", "residual_norm", "hilbert_norm", "degrees_of_freedom", "leave_one_out"):
        for at in (None, *readings):
            np.testing.assert_array_equal(getattr(left.path_, ask)(at), getattr(right.path_, ask)(at))
    for name in ("eigenvalues_", "dual_coef_", "X_fit_", "intercept_", "noise_std_", "step_sum_", "trace_"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    assert repr(left.stop_) == repr(right.stop_)
    assert repr(left.kernel_) == repr(right.kernel_)
    assert repr(left.get_params()) == repr(right.get_params())
    assert sorted(vars(left)) == sorted(vars(right))


def round_trip(fitted, folder):
    sw.save(fitted, folder / "model.stopwise")
    return sw.load(folder / "model.stopwise")


@each_estimator
@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("kernel", ONE_FEATURE + SEVERAL, ids=lambda kernel: getattr(kernel, "name", kernel))
def test_a_model_comes_back_exactly(estimator, kernel, precision, tmp_path, rng):
    X, y = rows(rng, 1 if kernel in ONE_FEATURE else 2)
    fitted = estimator(kernel, precision=precision).fit(X, y)
    assert_same(fitted, round_trip(fitted, tmp_path), X)


@each_estimator
def test_several_responses_weights_and_other_layouts_come_back_exactly(estimator, tmp_path, rng):
    X, y = rows(rng, 2, order="F", dtype=np.float32)
    weights = rng.integers(0, 3, size=50)
    fitted = estimator(k.Gaussian(0.5), rule="gcv", precision="float32").fit(
        X, np.column_stack([y, y**2, -y]), sample_weight=weights
    )
    assert_same(fitted, round_trip(fitted, tmp_path), X)


@pytest.mark.parametrize(
    "settings",
    [
        *({"filter": name} for name in ("flow", "cutoff", "nu-method")),
        {"filter": sw.filters.NuMethod(2.0)},
        *({"schedule": steps} for steps in (0.1, sw.schedules.PolynomialDecay(0.5, 0.3), [0.5, 0.4, 0.1])),
    ],
    ids=str,
)
def test_filters_and_schedules_come_back(settings, tmp_path, rng):
    X, y = rows(rng, 2)
    fitted = sw.KernelGradientRegressor(k.Gaussian(0.5), rule=sw.rules.Fixed(step_sum=9.0), **settings).fit(X, y)
    assert_same(fitted, round_trip(fitted, tmp_path), X)


@pytest.mark.parametrize(
    "rule",
    [
        sw.rules.Critical(3.0, "auto"),
        sw.rules.Minimax(2.0),
        sw.rules.HoldOut(0.3),
        sw.rules.HoldOut(split="halves"),
        sw.rules.Fixed(iteration=7),
        sw.rules.Discrepancy(),
        sw.rules.Oracle(np.linspace(0, 1, 50)),
        "loo",
    ],
    ids=lambda rule: getattr(rule, "name", rule),
)
def test_rules_and_their_evidence_come_back(rule, tmp_path, rng):
    X, y = rows(rng, 1)
    fitted = sw.KernelGradientRegressor(k.Gaussian(0.3), rule=rule, noise_std=sw.noise.Rice()).fit(X, y)
    assert_same(fitted, round_trip(fitted, tmp_path), X)


@pytest.mark.parametrize("solver", ["dense", "krylov", "nystrom", "line"])
def test_a_fit_by_any_solver_comes_back(solver, tmp_path, rng):
    X, y = rows(rng, 1)
    fitted = sw.KernelGradientRegressor(k.Sobolev(1), solver=solver).fit(X, y)
    assert_same(fitted, round_trip(fitted, tmp_path), X)


def test_a_fit_in_batches_goes_on_after_loading(tmp_path, rng):
    X, y = rows(rng, 2)
    settings = {"solver": "nystrom", "n_landmarks": 20, "rule": "gcv"}
    fitted = sw.KernelGradientRegressor(k.Gaussian(0.5), **settings).partial_fit(X[:30], y[:30])
    again = round_trip(fitted, tmp_path)
    np.testing.assert_array_equal(
        fitted.partial_fit(X[30:], y[30:]).predict(X), again.partial_fit(X[30:], y[30:]).predict(X)
    )


kernels = st.recursive(
    st.one_of(
        st.builds(k.Gaussian, st.floats(1e-3, 1e3)),
        st.builds(k.Laplace, st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))),
        st.builds(k.Matern, st.floats(1e-3, 1e3), st.sampled_from([0.5, 1.5, 2.5])),
        st.builds(k.Polynomial, st.integers(1, 4)),
        st.just(k.Linear()),
        st.builds(k.Constant, st.floats(1e-3, 1e3)),
    ),
    lambda inner: st.one_of(
        st.builds(k.Sum, inner, inner),
        st.builds(k.Product, inner, inner),
        st.builds(k.Scaled, inner, st.floats(1e-3, 1e3)),
    ),
    max_leaves=6,
)


@given(kernels)
def test_any_kernel_survives_json(kernel):
    encoder = Encoder()
    text = json.dumps(encoder.encode(kernel, "kernel"), allow_nan=False)
    assert Decoder(encoder.tensors).decode(json.loads(text)) == kernel


plain_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(),
        st.floats(width=32, allow_nan=False).map(np.float32),
    ),
    lambda inner: st.one_of(st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(st.text(), inner)),
    max_leaves=8,
)


@given(plain_values)
def test_any_plain_value_survives_json(value):
    encoder = Encoder()
    again = Decoder(encoder.tensors).decode(json.loads(json.dumps(encoder.encode(value, "value"), allow_nan=False)))
    assert again == value
    assert repr(again) == repr(value)


@given(
    st.lists(st.integers(0, 4), min_size=0, max_size=3),
    st.randoms(use_true_random=False),
    st.sampled_from(["f8", "f4", "i8", "?", "u1"]),
)
def test_an_array_keeps_values_shape_and_layout(shape, random, dtype):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    axes = random.sample(range(len(shape)), len(shape))
    array = array.transpose(axes)[tuple(slice(None, None, random.choice([1, -1])) for _ in shape)]
    tensor, layout = pack(array)
    assert tensor.flags["C_CONTIGUOUS"]
    again = unpack(tensor.copy(), **layout)
    np.testing.assert_array_equal(again, array)
    assert again.dtype == array.dtype
    if array.size > 1:
        long = [axis for axis in range(array.ndim) if array.shape[axis] > 1]
        assert [np.sign(again.strides[axis]) for axis in long] == [np.sign(array.strides[axis]) for axis in long]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = np.random.default_rng(5)
    X, y = rows(rng, 2)
    frame = pd.DataFrame(X, columns=["<b>", "two\nlines"])
    fitted = sw.KernelGradientRegressor(k.Gaussian((0.4, 0.6)), rule="sure").fit(frame, y)
    path = tmp_path_factory.mktemp("saved") / "model.stopwise"
    sw.save(fitted, path)
    return fitted, path, frame


def test_names_of_features_come_back(saved):
    fitted, path, frame = saved
    again = sw.load(path)
    assert list(again.feature_names_in_) == ["<b>", "two\nlines"]
    np.testing.assert_array_equal(again.predict(frame), fitted.predict(frame))


def test_the_header_says_what_the_model_is(saved):
    document, tensors, whole = read_container(saved[1])
    assert whole
    assert document["schema"] == model.SCHEMA
    assert document["feature_names"]["is"] == ["<b>", "two\nlines"]
    assert document["kernel"] == {"$": "kernels.Gaussian", "fields": {"length_scale": {"$": "tuple", "is": [0.4, 0.6]}}}
    assert document["stop"]["is"][0]["fields"]["reason"] == {"$": "rules.Reason", "is": "MINIMUM"}
    assert document["solver"] == "dense"
    assert document["versions"]["stopwise"] == sw.__version__
    assert "covariates" in tensors


def test_the_same_model_makes_the_same_file(saved, tmp_path):
    sw.save(saved[0], tmp_path / "again.stopwise")
    assert (tmp_path / "again.stopwise").read_bytes() == saved[1].read_bytes()


@pytest.mark.parametrize("part", range(10))
def test_a_thousand_cuts_and_flips_are_refused_or_change_nothing(saved, part, tmp_path):
    fitted, path, frame = saved
    content, expected = path.read_bytes(), fitted.predict(frame)
    header = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(part)
    target = tmp_path / "damaged.stopwise"
    for turn in range(100):
        damaged = bytearray(content)
        if turn % 2:
            damaged = damaged[: rng.integers(len(damaged))]
        else:
            limit = (8, header, len(damaged))[turn // 2 % 3]
            damaged[rng.integers(limit)] ^= 1 << rng.integers(8)
        target.write_bytes(damaged)
        try:
            again = sw.load(target)
        except ModelFileError:
            continue
        else:
            np.testing.assert_array_equal(again.predict(frame), expected)
            assert again.stop_ == fitted.stop_


def tampered(saved, tmp_path, change):
    """The file after a change by someone who also mends the checksum."""
    document, tensors, _ = read_container(saved[1])
    change(document, tensors)
    write_container(tmp_path / "tampered.stopwise", document, tensors)
    return tmp_path / "tampered.stopwise"


def test_a_batch_of_one_row_beside_its_landmarks_comes_back(tmp_path):
    points = np.array([[0.0, 0.0], [1.0, 1.0]])
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian(1.0), solver="nystrom", n_landmarks=points)
    with pytest.warns(StopwiseWarning, match="outside the range of the landmarks"):
        model.partial_fit(np.array([[3.0, -3.0]]), np.array([1.0]))
    sw.save(model, tmp_path / "batch.stopwise")
    new = np.array([[0.5, 0.5], [3.0, -3.0]])
    np.testing.assert_array_equal(sw.load(tmp_path / "batch.stopwise").predict(new), model.predict(new))


@pytest.mark.parametrize("change", [lambda rows: rows + 1, lambda rows: rows - 1, lambda rows: rows[1:], np.zeros_like])
def test_rows_left_out_that_are_none_of_the_table_are_refused(tmp_path, change):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60)
    model = sw.KernelRidgeRegressor(sw.kernels.Gaussian(0.5), solver="factor").fit(X, y)
    path = tmp_path / "factor.stopwise"
    sw.save(model, path)
    np.testing.assert_array_equal(sw.load(path).predict_interval(X), model.predict_interval(X))
    document, tensors, _ = read_container(path)
    [name] = [name for name in tensors if name.endswith("left_out_rows")]
    write_container(path, document, tensors | {name: np.ascontiguousarray(change(tensors[name]))})
    with pytest.raises(ModelFileError, match="left out"):
        sw.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, t: d["kernel"].update({"$": "os.system"}), "does not have"),
        (
            lambda d, t: d["kernel"].update({"$": "kernels.FromCallable", "fields": {"function": "print"}}),
            "does not have",
        ),
        (lambda d, t: d["kernel"]["fields"].update(length_scale=-1.0), "length_scale must be positive"),
        (lambda d, t: d["kernel"]["fields"].update(extra=1), "fields"),
        (lambda d, t: d["learned"].update(predict=None), "has the fields"),
        (lambda d, t: d["learned"].update(__class__=None), "has the fields"),
        (lambda d, t: d["learned"].pop("dual_coef"), "has the fields"),
        (lambda d, t: d["learned"]["dual_coef"].update(tensor="covariates"), "intercept"),
        (lambda d, t: d["learned"].update(n_features=3), "for 3 features"),
        (lambda d, t: d["parameters"].update(surprise=1), "surprise"),
        (lambda d, t: d.update(estimator="Pipeline"), "Pipeline"),
        (lambda d, t: d.update(stop=[]), "one stop per response|stops"),
        (lambda d, t: d.update(stop={"$": "list"}), "list"),
        (lambda d, t: d.pop("learned"), "learned"),
        (
            lambda d, t: t.update(covariates=t["covariates"][:, :-1].copy()),
            "rows of covariates|columns for 2",
        ),  # by layout
        (lambda d, t: t.update({name: t[name][:3] for name in t if name.endswith("coefficients")}), "disagree"),
        (lambda d, t: t["covariates"].fill(np.nan), "not finite"),
        (lambda d, t: t["path.coefficients"].fill(1e300), "responses overflow"),
        (lambda d, t: t["path.response"].fill(1e300), "responses overflow"),
        (lambda d, t: t["path.scale"].fill(1e300), "responses overflow"),
        (lambda d, t: t["path.spectrum.basis.rows"].fill(1e300), "eigenvectors overflow"),
        (lambda d, t: t["feature_range"].fill(1e300), "no row lies in feature_range"),
        (lambda d, t: t.update({"path.response": t["path.response"].reshape(-1)}), "responses and eigenvectors"),
        (lambda d, t: d["stop"]["is"][0]["fields"].update(step_sum=1e300), "disagree about where"),
        (lambda d, t: d.update(schema=99), "upgrade"),
        (lambda d, t: d.update(schema=0), "fit the model again"),
        (lambda d, t: d.update(schema="1"), "damaged"),
    ],
)
def test_a_tampered_file_is_refused_with_the_reason(saved, tmp_path, change, message):
    with pytest.raises(ModelFileError, match=message):
        sw.load(tampered(saved, tmp_path, change))


def test_an_older_schema_is_brought_up_to_date_step_by_step(saved, tmp_path, monkeypatch):
    def age(document, tensors):
        document["schema"] = 0
        document["learned"]["how"] = document.pop("solver")
        document["solver"] = None

    path = tampered(saved, tmp_path, age)
    monkeypatch.setattr(model, "OLDEST", 0)
    monkeypatch.setitem(model.MIGRATIONS, 0, lambda learned: learned | {"solver": learned.pop("how")})
    monkeypatch.setitem(model.MIGRATIONS, 1, lambda learned: {k: v for k, v in learned.items() if k != "how"})
    assert sw.load(path).solver_ == "dense"
    assert read_model(path).schema == 0


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"\x80\x04cos\nsystem\n(S'true'\ntR.", b"x,y\n1,2\n", b"\xff" * 100]
)
def test_a_file_that_is_no_model_is_refused(content, tmp_path):
    path = tmp_path / "other.stopwise"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="not a whole model file"):
        sw.load(path)


def test_other_safetensors_folders_and_absent_files_are_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(3)}, tmp_path / "plain.safetensors")
    with pytest.raises(ModelFileError, match="not a stopwise model"):
        sw.load(tmp_path / "plain.safetensors")
    with pytest.raises(ModelFileError, match="folder"):
        sw.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        sw.load(tmp_path / "absent.stopwise")


def linear(left, right):
    return left @ right.T


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (linear, r"a callable kernel is code.* joblib\.dump \(not of a lambda"),
        (RBF(0.5), "a scikit-learn kernel is an object of another library"),
        ("precomputed", "a precomputed kernel is known by its matrix alone"),
        (k.Linear() + k.FromCallable(linear), "a callable kernel is code"),
    ],
)
def test_what_cannot_be_saved_is_said_plainly_and_leaves_no_file(kernel, message, tmp_path, rng):
    X, y = rows(rng, 2)
    fitted = sw.KernelGradientRegressor(kernel, rule="gcv").fit(X @ X.T if kernel == "precomputed" else X, y)
    with pytest.raises(CannotSave, match=message):
        sw.save(fitted, tmp_path / "never.stopwise")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unit", [1e140, 1e160, 1e300])
def test_every_file_that_is_written_can_be_read(tmp_path, unit):
    """A model whose squares overflow was saved, and refused when it was loaded."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    fitted = sw.KernelGradientRegressor("gaussian").fit(X, unit * (X[:, 0] + 0.1 * rng.normal(size=60)))
    path = tmp_path / "m.stopwise"
    if unit < 1e150:
        sw.save(fitted, path)
        np.testing.assert_array_equal(sw.load(path).predict(X), fitted.predict(X))
    else:
        with pytest.raises(CannotSave, match=r"overflow.*: rescale X or y, and fit again"):
            sw.save(fitted, path)
        assert not path.exists()


def test_only_fitted_estimators_of_this_package_are_saved(tmp_path, rng):
    X, y = rows(rng, 2)
    with pytest.raises(ValueError, match="not fitted"):
        sw.save(sw.KernelRidgeRegressor(), tmp_path / "never.stopwise")
    with pytest.raises(CannotSave, match="got Pipeline"):
        sw.save(make_pipeline(StandardScaler(), sw.KernelRidgeRegressor()).fit(X, y), tmp_path / "never.stopwise")
    odd = sw.KernelRidgeRegressor(k.Linear(), random_state=np.random.RandomState(0)).fit(X, y)
    with pytest.raises(CannotSave, match="the parameter random_state is a numpy"):
        sw.save(odd, tmp_path / "never.stopwise")
    sw.save(odd.set_params(random_state=0), tmp_path / "now.stopwise")


def test_saving_replaces_a_file_in_one_step_and_keeps_its_permissions(saved, tmp_path):
    path = tmp_path / "model.stopwise"
    path.write_bytes(b"old")
    path.chmod(0o640)
    (tmp_path / "link.stopwise").symlink_to(path)
    sw.save(saved[0], tmp_path / "link.stopwise")
    assert path.read_bytes() == saved[1].read_bytes()
    assert (tmp_path / "link.stopwise").is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link.stopwise", "model.stopwise"]


@pytest.mark.parametrize("where", ["absent/model.stopwise", "."])
def test_saving_where_no_file_can_be_says_so(saved, tmp_path, where):
    with pytest.raises(OSError, match=r"does not exist|is a folder"):
        sw.save(saved[0], tmp_path / where)


def save_again_and_again(model, path, ready):
    try:
        os.write(ready, b"ready")
        for _ in range(10_000):
            sw.save(model, path)
    finally:
        os._exit(3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_kill_during_save_leaves_a_whole_file(saved, tmp_path):
    path = tmp_path / "model.stopwise"
    path.write_bytes(saved[1].read_bytes())
    for turn in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            save_again_and_again(saved[0], path, writer)
        assert os.read(reader, 5) == b"ready"
        time.sleep(0.05 + 0.037 * turn)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        os.close(reader), os.close(writer)
        np.testing.assert_array_equal(sw.load(path).predict(saved[2]), saved[0].predict(saved[2]))


def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(saved, tmp_path, monkeypatch):
    path = tmp_path / "model.stopwise"
    path.write_bytes(b"old")

    def full_disk(tensors, filename, metadata):
        filename.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stopwise.io.container.save_file", full_disk)
    with pytest.raises(OSError, match="No space left"):
        sw.save(saved[0], path)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["model.stopwise"]


def test_loading_unpickles_nothing_and_evaluates_nothing(saved, monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError("loading ran something it should not")

    sw.load(saved[1])  # typing evaluates the annotations of our own types, once
    for name in ("pickle.loads", "pickle.load", "builtins.eval", "os.system", "subprocess.Popen"):
        monkeypatch.setattr(name, forbidden)
    sw.load(saved[1])
