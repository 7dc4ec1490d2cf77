"""TableEncoder: the same features from pandas, polars and Arrow as by hand, and scikit-learn's contract."""

import datetime as dt
import decimal
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import stopwise as sw
from stopwise.tables import TableEncoder, TableError
from stopwise.tables.dates import phase, useful_parts

ROWS = 50
LIBRARIES = {"pandas": lambda frame: frame, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}


@pytest.fixture
def frame(rng):
    when = pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.uniform(0, 900, ROWS).round(3), unit="D")
    made = pd.DataFrame(
        {
            "size": rng.normal(size=ROWS),
            "count": pd.array(rng.integers(0, 9, ROWS), dtype="Int64"),
            "flag": rng.random(ROWS) < 0.5,
            "kind": pd.Categorical(rng.choice(["ash", "elm", "oak"], ROWS)),
            "place": rng.choice(["north", "south"], ROWS),
            "when": when.round("s"),
        }
    )
    made.loc[3, "size"] = made.loc[5, "count"] = np.nan
    made.loc[7, "place"] = None
    made.loc[9, "when"] = pd.NaT
    return made


@pytest.fixture
def y(frame, rng):
    return np.sin(frame["size"].fillna(0)).to_numpy() + (frame["kind"] == "oak") + 0.1 * rng.normal(size=ROWS)


def by_hand(frame):
    """The features, column by column, in plain pandas."""
    days = (frame["when"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    start = frame["when"].dt.to_period("Y").dt.start_time
    year = (frame["when"] - start) / pd.Timedelta(days=1) / np.where(frame["when"].dt.is_leap_year, 366, 365)
    week, day = (days - 4) / 7, days % 1
    out = {
        "size": frame["size"].fillna(frame["size"].median()),
        "count": frame["count"].astype(float).fillna(frame["count"].median()),
        "flag": frame["flag"].astype(float),
        **{f"kind={level}": (frame["kind"] == level).astype(float) for level in ("ash", "elm", "oak")},
        **{f"place={level}": (frame["place"] == level).astype(float) for level in ("north", "south")},
        "place=(missing)": frame["place"].isna().astype(float),
        "when": days.fillna(days.median()),
    }
    for name, turn in (("year", year), ("week", week), ("day", day)):
        out[f"when {name} sin"] = np.sin(2 * np.pi * turn).fillna(0)
        out[f"when {name} cos"] = np.cos(2 * np.pi * turn).fillna(0)
    return pd.DataFrame(out)


@pytest.mark.parametrize("library", LIBRARIES)
def test_features_are_those_made_by_hand(frame, y, library):
    expected = by_hand(frame)
    encoder = TableEncoder().fit(LIBRARIES[library](frame), y)
    assert list(encoder.get_feature_names_out()) == list(expected.columns)
    np.testing.assert_allclose(encoder.transform(LIBRARIES[library](frame)), expected, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("estimator", [sw.KernelGradientRegressor, sw.KernelRidgeRegressor])
def test_a_frame_its_matrix_and_a_pipeline_give_the_same_model(frame, y, library, estimator):
    encoder = TableEncoder().fit(frame, y)
    matrix, given = encoder.transform(frame), LIBRARIES[library](frame)
    plain = estimator("gaussian").fit(matrix, y)
    model = estimator("gaussian").fit(given, y)
    piped = make_pipeline(TableEncoder(), estimator("gaussian")).fit(given, y)
    expected = plain.predict(matrix)
    np.testing.assert_allclose(model.predict(given), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(piped.predict(given), expected, rtol=1e-10, atol=1e-10)
    # The promise about the weights, restated for encoded rows:
    by_weights = model.kernel_(encoder.transform(given), model.X_fit_) @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(by_weights, expected, rtol=1e-10, atol=1e-10)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.n_features_in_ == frame.shape[1]


def test_a_model_of_a_frame_is_saved_loaded_and_pickled_with_its_recipe(frame, y, tmp_path):
    model = sw.KernelGradientRegressor("gaussian").fit(frame, y)
    sw.save(model, tmp_path / "m.stopwise")
    for again in (sw.load(tmp_path / "m.stopwise"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
        np.testing.assert_array_equal(again.predict(pl.from_pandas(frame)), model.predict(frame))


def test_a_model_of_a_frame_of_text_wants_a_frame(frame, y):
    model = sw.KernelGradientRegressor("gaussian").fit(frame, y)
    with pytest.raises(TypeError, match="predict from a frame with 'size', 'count'"):
        model.predict(np.zeros((2, 15)))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.drop(columns="kind"))


def test_arrays_with_gaps_still_raise(y):
    X = np.ones((ROWS, 2))
    X[4, 1] = np.nan
    for fit in (TableEncoder().fit, sw.KernelGradientRegressor().fit):
        with pytest.raises(ValueError, match="contains NaN"):
            fit(X, y)
    assert np.isfinite(sw.KernelGradientRegressor("gaussian").fit(pd.DataFrame(X), y).predict(pd.DataFrame(X))).all()


def test_levels_of_a_column_and_turns_of_a_cycle_are_groups(frame, y):
    encoder = TableEncoder().fit(frame, y)
    names = encoder.get_feature_names_out()
    assert sorted(j for group in encoder.groups_ for j in group) == list(range(len(names)))
    together = [{names[j] for j in group} for group in encoder.groups_ if len(group) > 1]
    assert {"kind=ash", "kind=elm", "kind=oak"} in together
    assert {"when year sin", "when year cos"} in together


def test_a_gap_that_speaks_of_y_has_a_feature_of_its_own_and_one_that_does_not_has_none(rng):
    x = rng.normal(size=400)
    loud, mute = rng.random(400) < 0.2, rng.random(400) < 0.2
    y = 2.0 * loud + rng.normal(size=400)
    frame = pd.DataFrame({"loud": np.where(loud, np.nan, x), "mute": np.where(mute, np.nan, x)})
    assert list(TableEncoder().fit(frame, y).get_feature_names_out()) == ["loud", "loud (missing)", "mute"]
    both = TableEncoder().fit(frame)
    assert list(both.get_feature_names_out()) == ["loud", "loud (missing)", "mute", "mute (missing)"]


def test_text_of_many_levels_is_pooled_dropped_or_refused(rng):
    frame = pd.DataFrame({"x": rng.normal(size=300), "t": [f"l{at * at % 60}" for at in range(300)]})
    count = frame["t"].nunique()
    assert count > 10
    with pytest.warns(UserWarning, match="rarest levels? of 't' and any new one count as"):
        pooled = TableEncoder(max_levels=5).fit(frame)
    assert sum(name.startswith("t=") for name in pooled.get_feature_names_out()) == 6
    assert pooled.pooled_ == {"t": count - 5}
    commonest = set(frame["t"].value_counts().index[frame["t"].value_counts() > frame["t"].value_counts().iloc[5]])
    assert commonest <= {name.removeprefix("t=") for name in pooled.get_feature_names_out()}
    unseen = pooled.encode(pd.DataFrame({"x": [0.0], "t": ["never"]}))
    assert unseen.unseen.tolist() == [True]
    assert unseen.matrix[0, -1] == 1.0
    with pytest.warns(UserWarning, match="columns left out: 't'"):
        assert list(TableEncoder(max_levels=5, many="drop").fit(frame).get_feature_names_out()) == ["x"]
    with pytest.raises(TableError, match="more than 5"):
        TableEncoder(max_levels=5, many="error").fit(frame)


def test_names_of_rows_empty_and_constant_text_are_left_out_with_a_reason(rng):
    frame = pd.DataFrame({"x": rng.normal(size=60), "id": [f"r{at}" for at in range(60)], "no": None, "one": "u"})
    with pytest.warns(UserWarning, match="columns left out"):
        encoder = TableEncoder().fit(frame)
    assert set(encoder.left_out_) == {"id", "no", "one"}
    assert encoder.transform(frame).shape == (60, 1)


def test_numbers_with_a_slip_are_not_taken_for_text():
    frame = pd.DataFrame({"x": [*map(str, range(200)), "12k"]})
    with pytest.raises(TableError, match=r"holds numbers, but not in all rows \(row 201: '12k'\)"):
        TableEncoder().fit(frame)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (
            [*"12345" * 8, "5+"],
            r"'x' holds numbers, but not in all rows \(row 41: '5\+'\), and is used as text of 6 lev",
        ),
        (["2021-01-02", "03/01/2021", "4 Jan 2021"] * 9, "'x' holds dates, such as '2021-01-02', '03/01/2021', and is"),
        (["1.5", "2,5", "3.5"] * 9, "'x' holds numbers, such as '1.5', '2,5', and is used as text of 3 levels"),
    ],
)
def test_levels_that_may_be_numbers_or_dates_are_spoken_of_unless_said_to_be_text(cells, words):
    with pytest.warns(UserWarning, match=words):
        TableEncoder().fit(pd.DataFrame({"x": cells}))
    said = TableEncoder().fit(pd.DataFrame({"x": cells}, dtype="category"))
    assert len(said.get_feature_names_out()) == len(set(cells))


@pytest.mark.parametrize("word", ["none", "unknown", "-"])
def test_text_that_mostly_says_that_there_is_nothing_is_text_and_no_dates(word):
    frame = pd.DataFrame({"x": range(40), "stance": [word] * 30 + ["yes", "no"] * 5})
    encoder = TableEncoder().fit(frame)
    assert [name for name in encoder.get_feature_names_out() if name.startswith("stance")] == [
        f"stance={level}" for level in sorted({word, "yes", "no"})
    ]


def test_objects_are_read_by_what_they_are():
    frame = pd.DataFrame(
        {
            "number": pd.Series([1, 2.5, None], dtype=object),
            "exact": pd.Series([decimal.Decimal("1.5"), None, decimal.Decimal(2)], dtype=object),
            "flag": pd.Series([True, None, False], dtype=object),
            "day": pd.Series([dt.date(2020, 1, 1), None, dt.date(2020, 1, 3)], dtype=object),
            "time": pd.Series([dt.time(8, 30), None, dt.time(9)], dtype=object),
            "span": pd.to_timedelta([1, 2, 4], unit="D"),
        }
    )
    matrix = TableEncoder().fit(frame).transform(frame)
    expected = [[1, 1.5, 1, 18262, 8.5, 1], [2.5, 1.75, 0.5, 18263, 8.75, 2], [1.75, 2, 0, 18264, 9, 4]]
    expected[1][0], expected[2][0] = 2.5, 1.75
    np.testing.assert_allclose(matrix, expected)


@pytest.mark.parametrize("cell", [[1], {"a": 1}, b"bytes", 1j])
def test_other_objects_are_refused_by_name(cell):
    with pytest.raises((TableError, TypeError), match=r"'odd'|complex"):
        TableEncoder().fit(pd.DataFrame({"odd": pd.Series([cell, cell], dtype=object)}))


def test_infinity_is_refused_with_its_row():
    with pytest.raises(TableError, match=r"'x' holds infinity in 1 rows \(row 2 first\)"):
        TableEncoder().fit(pd.DataFrame({"x": [1.0, np.inf]}))


def test_gaps_can_be_refused(frame):
    with pytest.raises(TableError, match=r"missing values in 'size', 'count', 'place', 'when' \(1 of 50 rows"):
        TableEncoder(missing="error").fit(frame)


def test_lazy_frames_and_twice_named_columns_are_refused(frame):
    with pytest.raises(TypeError, match=r"pass frame.collect\(\)"):
        TableEncoder().fit(pl.from_pandas(frame).lazy())
    twice = pd.DataFrame(np.ones((3, 2)), columns=["a", "a"])
    with pytest.raises(ValueError, match="share the name 'a'"):
        TableEncoder().fit(twice)
    arrow = pa.table([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], names=["a", "a"])
    with pytest.raises(ValueError, match="columns of X share the name 'a'"):
        sw.KernelGradientRegressor().fit(arrow, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("step", "count", "kept"),
    [
        ("1h", 200, ("trend", "week", "day")),
        ("1D", 800, ("trend", "year", "week")),
        ("1D", 5, ("trend",)),
        ("MS", 40, ("trend", "year")),
        ("YS", 9, ("trend",)),
    ],
)
def test_a_cycle_is_kept_where_the_dates_show_it(step, count, kept):
    when = pd.date_range("2020-01-01", periods=count, freq=step).to_numpy().astype("datetime64[us]")
    parts = useful_parts(when, ("trend", "year", "week", "day"))
    # A year's first days differ in phase by leap years alone: a hundredth of the circle at most.
    assert parts == kept or (step == "YS" and np.ptp(phase(when, "year")) < 0.01)
    assert useful_parts(when, ("trend",)) == ("trend",)


def test_phases_start_on_new_years_day_on_monday_and_at_midnight():
    when = np.array(["2024-01-01T00:00", "2024-07-02T12:00"], dtype="datetime64[us]")
    np.testing.assert_allclose(phase(when, "year"), [0, 183.5 / 366])
    np.testing.assert_allclose(phase(when, "week"), [0, 1.5 / 7])
    np.testing.assert_allclose(phase(when, "day"), [0, 0.5])


@parametrize_with_checks([TableEncoder()])
def test_scikit_learns_contract_holds(estimator, check):
    state = np.random.get_state()  # noqa: NPY002
    try:
        check(clone(estimator))
    finally:
        np.random.set_state(state)  # noqa: NPY002


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_levels_of_a_category_share_a_length_scale_and_numbers_have_their_own(rng):
    frame = pd.DataFrame({"x": rng.uniform(size=150), "z": rng.uniform(size=150), "k": rng.choice(list("abcd"), 150)})
    y = np.sin(6 * frame["x"]) + frame["k"].map({"a": 0, "b": 1, "c": 0.5, "d": -1}) + 0.05 * rng.normal(size=150)
    model = sw.KernelGradientRegressor(sw.kernels.Gaussian("auto"), relevance=True).fit(frame, y)
    scales = model.kernel_.scales
    assert np.ptp(scales[2:]) == 0
    assert len(set(scales[:3])) == 3


def test_warnings_point_at_the_line_that_called(rng):
    frame = pd.DataFrame({"a": rng.normal(size=30), "name": [f"row {i}" for i in range(30)]})
    pipeline = make_pipeline(TableEncoder(), sw.KernelGradientRegressor(sw.kernels.Gaussian(1.0)))
    for model in (TableEncoder(), sw.KernelGradientRegressor(sw.kernels.Gaussian(1.0)), pipeline):
        with pytest.warns(UserWarning, match="'name' \\(it names rows") as warned:
            model.fit(frame, frame["a"] + 0.1 * rng.normal(size=30))
        assert warned[0].filename == __file__


def test_a_comparison_of_a_frame_is_on_the_path_of_its_fit(rng):
    frame = pd.DataFrame({"a": rng.normal(size=90), "kind": rng.choice(["x", "y", "z"], 90)})
    y = frame["a"] ** 2 + (frame["kind"] == "x") + 0.1 * rng.normal(size=90)
    model = sw.KernelGradientRegressor(random_state=0).fit(frame, y)
    compared = sw.compare(frame, y)
    assert compared.model.kernel_ == model.kernel_
    assert compared.rows[0].step_sum == model.stop_.step_sum
    matrix = TableEncoder().fit(frame, y).transform(frame)
    assert sw.compare(matrix, y).model.kernel_ == model.kernel_
    assert sw.compare(frame, y, holdout=0.3).n_holdout == 27
