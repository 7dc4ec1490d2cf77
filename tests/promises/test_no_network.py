"""Nothing asks the network for anything: every socket but a local one is refused, and all goes on as before."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

GUARD = """
import socket, sys

def refuse(*arguments, **_):
    raise AssertionError(f"the network was asked for: {arguments}")

class Local(socket.socket):
    def connect(self, address):
        return super().connect(address) if self.family == socket.AF_UNIX else refuse(address)

    def connect_ex(self, address):
        return super().connect_ex(address) if self.family == socket.AF_UNIX else refuse(address)

    def bind(self, address):
        return super().bind(address) if self.family == socket.AF_UNIX else refuse(address)

    def sendto(self, *arguments):
        return super().sendto(*arguments) if self.family == socket.AF_UNIX else refuse(*arguments)

socket.socket = Local
for name in ("create_connection", "create_server", "getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
    setattr(socket, name, refuse)
"""
LIBRARY = """
import numpy as np, stopwise as sw
from stopwise.views.comparison import compare
from stopwise.examples import EXAMPLES, load_example
from stopwise.rules.explanation import explain
for name in EXAMPLES:
    frame = load_example(name).frame
rng = np.random.default_rng(0)
X = rng.uniform(size=(60, 2))
y = np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=60)
for estimator in (sw.KernelGradientRegressor, sw.KernelRidgeRegressor):
    for rule in ("auto", "critical", "holdout"):
        model = estimator(rule=rule).fit(X, y)
        model.predict(X, return_std=True), model.score(X, y), explain(model), model._repr_html_()
for solver in ("krylov", "nystrom"):
    sw.KernelGradientRegressor(sw.kernels.Gaussian(0.5), solver=solver, rule="gcv").fit(X, y)
sw.KernelGradientRegressor(sw.kernels.Gaussian(0.5), n_landmarks=9).partial_fit(X, y).refit
sw.save(model, "m.stopwise")
sw.load("m.stopwise").predict(X)
compare(X, y, kernel="matern32")
"""
REPORT = """
import numpy as np, stopwise as sw
import stopwise.pages
X = np.linspace(0, 1, 40)[:, None]
model = sw.KernelGradientRegressor("matern32").fit(X, np.sin(5 * X[:, 0]) + 0.1 * np.cos(90 * X[:, 0]))
for draw in (sw.plot.crossing, sw.plot.path, sw.plot.spectrum, sw.plot.fit, sw.plot.residuals):
    draw(model)
"""
COMMANDS = """
from stopwise.cli import main
def run(*words):
    try:
        main(list(words), prog_name="stopwise")
    except SystemExit as ended:
        assert ended.code == 0, words
run("fit", "--example", "motorcycle", "--out", "m.stopwise", "--report", "r.html")
run("info", "m.stopwise")
run("compare", "--example", "motorcycle", "--kernel", "matern32", "--figure", "c.png", "-q")
open("t.csv", "w").write("milliseconds\\n1\\n2\\n")
run("predict", "m.stopwise", "t.csv", "--std")
run("reproduce", "bounds", "--trials", "2", "--n", "12", "--jobs", "1", "-q")
from stopwise.experiments import Config, run as reproduce
reproduce(["ridge"], Config(trials=2, sizes=(12,)), jobs=2)
"""


def guarded(code, folder):
    return subprocess.run(
        [sys.executable, "-c", GUARD + code],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_nothing_asks_the_network(tmp_path):
    drawn = find_spec("matplotlib") and find_spec("jinja2")
    done = guarded(LIBRARY + (REPORT + COMMANDS if drawn else ""), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "socket.create_connection(('127.0.0.1', 9))",
        "socket.socket().connect(('127.0.0.1', 9))",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')",
    ],
)
def test_the_guard_itself_refuses(tmp_path, code):
    done = guarded(code, tmp_path)
    assert done.returncode != 0
    assert "the network was asked for" in done.stderr


def test_a_report_fetches_nothing_when_it_is_read(tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    from commands import run

    out = tmp_path / "r.html"
    assert run("fit", "--example", "motorcycle", "--report", str(out)).exit_code == 0
    page = out.read_text(encoding="utf-8")
    for word in (
        'src="http',
        "src='http",
        'href="http',
        "url(http",
        "@import",
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
    ):
        assert word not in page
