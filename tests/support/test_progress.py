"""What a library says while it works: nothing, unless asked; then where it is, once, on standard error."""

import numpy as np

import stopwise as sw
from stopwise._support.progress import Progress, say


def data(n=60):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(n, 1))
    return x, np.sin(6 * x[:, 0]) + 0.3 * rng.normal(size=n)


def test_a_fit_says_nothing_unless_it_is_asked_to(capfd):
    sw.KernelGradientRegressor("gaussian").fit(*data())
    assert capfd.readouterr() == ("", "")


def test_a_verbose_fit_says_where_it_is_on_standard_error_whatever_its_solver(capfd):
    for solver in ("auto", "krylov", "nystrom"):
        sw.KernelGradientRegressor("gaussian", solver=solver, rule="gcv", verbose=1).fit(*data())
        out, err = capfd.readouterr()
        assert out == ""
        assert err.startswith("taking rows ...\n")
        assert "\x1b" not in err


def test_progress_inside_progress_hands_its_words_on(capfd):
    with Progress(1, "fitting") as outer:
        with Progress(1, "solving") as inner:
            inner.show("3 products")
        assert outer.what == "3 products"
    say("nobody is listening any more")
    assert capfd.readouterr().err == "fitting ...\n3 products ...\n"
