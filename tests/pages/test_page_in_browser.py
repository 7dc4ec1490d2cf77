"""The report in a real browser: silent, offline, moved by mouse and keyboard, and right to the last shown digit."""

import json
import os
import re
import shutil
import warnings

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from stopwise.examples import load_example
from stopwise.exceptions import ExtrapolationWarning
from stopwise.views.curves import directions
from stopwise.views.facts import rmse_leave_one_out

pytestmark = pytest.mark.browser
MUST_RUN = "browser" in os.environ.get("STOPWISE_MUST_RUN", "").split(",")
SCREENSHOTS = os.environ.get("STOPWISE_SCREENSHOTS")
"""A folder to leave screenshots in, for people to look at."""
NASTY = ["</script><script>document.title='owned'</script>", "<img src=x onerror=\"document.title='owned'\">"]
NASTY += ["\"quotes\" & 'more'", "new\nline\u2028", "\U0001f600", "n" * 10_000]


def needed(what, found):
    """Skip where a part is missing, saying which; fail where the tests must run."""
    if found:
        return found
    line = f"{what} is missing: browser tests need chromium, chromedriver and pip install 'stopwise[report,browser]'"
    pytest.fail(line) if MUST_RUN else pytest.skip(line)


def module(name):
    try:
        return __import__(name)
    except ImportError:
        return None


@pytest.fixture(scope="module")
def browser():
    needed("jinja2", module("jinja2"))
    needed("selenium", module("selenium"))
    chromium = needed("chromium", shutil.which("chromium") or shutil.which("chromium-browser"))
    driver = needed("chromedriver", shutil.which("chromedriver"))
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    options.add_argument("--window-size=1000,1400")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def motorcycle(tmp_path_factory):
    from stopwise.pages import write

    example = load_example("motorcycle")
    X, y = example.frame[["milliseconds"]], example.frame[example.target].to_numpy()
    model = sw.KernelGradientRegressor().fit(X, y)
    page = tmp_path_factory.mktemp("report") / "motorcycle.html"
    write(model, page, X=X, y=y, target=example.target, command="stopwise fit --example motorcycle")
    return model, page


def open_page(browser, page):
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(page.as_uri())
    assert browser.execute_script("return document.documentElement.classList.contains('ready')")
    return browser.find_element("id", "stop")


def numbers(browser):
    cells = browser.find_elements("css selector", "[data-number]")
    return {c.get_attribute("data-number"): float(c.get_attribute("data-value") or "nan") for c in cells}


def assert_numbers_are_the_librarys(browser, model):
    shown, path = numbers(browser), model.path_
    at = shown["step_sum"]
    assert shown["degrees_of_freedom"] == pytest.approx(float(path.degrees_of_freedom(at)), rel=1e-6, abs=1e-9)
    assert shown["rmse_fit"] == pytest.approx(float(path.residual_norm(at)), rel=1e-6, abs=1e-9)
    assert shown["hilbert_norm"] == pytest.approx(float(path.hilbert_norm(at)), rel=1e-6, abs=1e-9)
    left_out = rmse_leave_one_out(path, at)
    if np.isfinite(left_out):
        assert shown["rmse_loo"] == pytest.approx(left_out, rel=1e-6)
    else:
        assert np.isnan(shown["rmse_loo"])
    if isinstance(path.filter, sw.filters.SteppedFilter):
        assert shown["iteration"] == float(path.filter.iteration(at))
    return shown


def assert_curve_is_the_librarys(browser, model, shown):
    x, curve = map(
        np.array, browser.execute_script("return [Array.from(Report.curve.x), Array.from(Report.current().curve)]")
    )
    path, psi = model.path_, directions(model, x[:, None])
    weight = path.filter.weight(path.spectrum.eigenvalues, shown["step_sum"])
    spread = float(np.std(path.fit(path.step_sum_cap)))
    assert curve == pytest.approx(path.offset + path.scale * psi @ (weight * path.coefficients), abs=1e-6 * spread)


def silent(browser):
    """Nothing was said on the console, and nothing but the page itself was asked for."""
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert asked == [browser.current_url]
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def drawn(browser):
    return browser.find_element("css selector", "#fit path.line.c1").get_attribute("d")


def test_the_page_is_silent_and_asks_the_network_for_nothing(browser, motorcycle):
    open_page(browser, motorcycle[1])
    silent(browser)


def test_the_page_opens_at_the_chosen_stop_with_the_librarys_numbers(browser, motorcycle):
    model, page = motorcycle
    slider = open_page(browser, page)
    shown = assert_numbers_are_the_librarys(browser, model)
    assert shown["step_sum"] == model.step_sum_
    assert_curve_is_the_librarys(browser, model, shown)
    x = np.array(browser.execute_script("return Array.from(Report.curve.x)"))
    curve = browser.execute_script("return Array.from(Report.current().curve)")
    with warnings.catch_warnings():  # the curve is drawn a little beyond the data
        warnings.simplefilter("ignore", ExtrapolationWarning)
        new = pd.DataFrame({"milliseconds": x})
        assert curve == pytest.approx(model.predict(new), abs=1e-4)  # seven digits of a spread of 100
        ends = model.predict_interval(new, 0.9)
    half = browser.execute_script("return Array.from(Report.response().curve.new)")
    assert half == pytest.approx((ends[:, 1] - ends[:, 0]) / 2, rel=1e-9)
    assert "the chosen stop" in slider.get_attribute("aria-valuetext")


def test_arrow_keys_move_curve_and_numbers_and_the_button_brings_them_back(browser, motorcycle):
    from selenium.webdriver.common.keys import Keys

    model, page = motorcycle
    slider = open_page(browser, page)
    before, curve = numbers(browser), drawn(browser)
    slider.send_keys(*[Keys.ARROW_RIGHT] * 25)
    after = assert_numbers_are_the_librarys(browser, model)
    assert after["degrees_of_freedom"] > before["degrees_of_freedom"]
    assert after["rmse_fit"] < before["rmse_fit"]
    assert drawn(browser) != curve
    assert_curve_is_the_librarys(browser, model, after)
    for key in (Keys.HOME, Keys.END):
        slider.send_keys(key)
        assert_numbers_are_the_librarys(browser, model)
    browser.find_element("id", "back").click()
    assert numbers(browser) == pytest.approx(before, nan_ok=True)
    assert drawn(browser) == curve


def test_the_mouse_drags_the_slider(browser, motorcycle):
    from selenium.webdriver import ActionChains

    model, page = motorcycle
    slider = open_page(browser, page)
    before, curve = numbers(browser), drawn(browser)
    left = -slider.size["width"] // 2 + 40
    ActionChains(browser).move_to_element(slider).click_and_hold().move_by_offset(left, 0).release().perform()
    after = assert_numbers_are_the_librarys(browser, model)
    assert after["step_sum"] < before["step_sum"]
    assert drawn(browser) != curve
    assert_curve_is_the_librarys(browser, model, after)


def test_a_screen_reader_hears_where_the_slider_is(browser, motorcycle):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.wait import WebDriverWait

    slider = open_page(browser, motorcycle[1])
    assert slider.accessible_name == "Stopping time"
    slider.send_keys(Keys.ARROW_LEFT)
    assert "degrees of freedom" in slider.get_attribute("aria-valuetext")
    live = browser.find_element("id", "live")
    assert live.get_attribute("aria-live") == "polite"
    WebDriverWait(browser, 10).until(lambda _: "error in sample" in live.get_attribute("textContent"))
    browser.execute_script("document.getElementById('others').open = true")
    WebDriverWait(browser, 10).until(lambda _: len(browser.find_elements("css selector", "svg.plot")) == 7)
    for figure in browser.find_elements("css selector", "svg.plot"):
        assert figure.get_attribute("role") == "img"
        assert re.search(r"Across: .+; up: .+\..*\d", figure.get_attribute("aria-label"))


@pytest.mark.parametrize("filter", ["flow", "cutoff", "nu-method", "ridge", "decaying steps"])
def test_every_filter_is_computed_as_in_the_library(browser, tmp_path, filter):
    from selenium.webdriver.common.keys import Keys

    from stopwise.pages import write

    rng = np.random.default_rng(11)
    x = np.linspace(0.02, 1, 60)[:, None]
    y = np.sin(6 * x[:, 0]) + 0.2 * rng.normal(size=60)
    if filter == "ridge":
        model = sw.KernelRidgeRegressor("sobolev1")
    elif filter == "decaying steps":
        model = sw.KernelGradientRegressor("sobolev1", schedule=sw.schedules.PolynomialDecay(0.5, 0.5))
    else:
        model = sw.KernelGradientRegressor("sobolev1", filter=filter)
    write(model.fit(x, y), tmp_path / "page.html", X=x, y=y)
    slider = open_page(browser, tmp_path / "page.html")
    for keys in ((), [Keys.ARROW_RIGHT] * 9, [Keys.ARROW_LEFT] * 30, [Keys.END]):
        slider.send_keys(*keys)
        shown = assert_numbers_are_the_librarys(browser, model)
        assert_curve_is_the_librarys(browser, model, shown)


def test_names_from_the_data_run_no_script(browser, tmp_path):
    from stopwise.pages import write

    rng = np.random.default_rng(12)
    X = pd.DataFrame(rng.uniform(size=(50, len(NASTY))), columns=NASTY)
    y = X.to_numpy()[:, 0] + 0.1 * rng.normal(size=50)
    model = sw.KernelGradientRegressor("gaussian").fit(X, y)
    write(model, tmp_path / "page.html", X=X, y=y, target=NASTY[1], command=" ".join(NASTY), warnings=NASTY)
    open_page(browser, tmp_path / "page.html")
    assert browser.get_log("browser") == []
    assert browser.title.startswith("<img")
    assert browser.find_element("tag name", "h1").text == NASTY[1]
    labels = [node.text for node in browser.find_elements("css selector", "[id^=effect] text.title")]
    assert NASTY[0] in labels
    assert browser.find_elements("css selector", "main img, main script") == []
    assert_numbers_are_the_librarys(browser, model)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_readers_colour_scheme_and_fits_a_phone(browser, motorcycle, scheme):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    phone = {"width": 360, "height": 780, "deviceScaleFactor": 1, "mobile": True}
    try:
        open_page(browser, motorcycle[1])
        paint = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        brightness = np.mean([float(part) for part in paint.strip("rgb()").split(",")])
        assert brightness > 200 if scheme == "light" else brightness < 60
        if SCREENSHOTS:
            browser.save_screenshot(os.path.join(SCREENSHOTS, f"{scheme}.png"))
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        open_page(browser, motorcycle[1])
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
        if SCREENSHOTS:
            browser.save_screenshot(os.path.join(SCREENSHOTS, f"{scheme}-phone.png"))
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_category_is_dots_and_two_columns_a_map(browser, tmp_path):
    from stopwise.pages import write

    example = load_example("kiln")
    model = sw.KernelGradientRegressor("gaussian")
    write(model.fit(example.frame.drop(columns="strength"), example.frame["strength"]), tmp_path / "page.html")
    open_page(browser, tmp_path / "page.html")
    silent(browser)
    labels = [
        figure.get_attribute("aria-label") for figure in browser.find_elements("css selector", "[id^=effect] svg")
    ]
    kiln = next(label for label in labels if "Effect of kiln" in label)
    assert all(level in kiln for level in ("north", "old", "river"))
    assert browser.find_elements("css selector", "#heat rect.cell")
    assert_numbers_are_the_librarys(browser, model)


def test_the_menu_brings_another_response(browser, tmp_path):
    from selenium.webdriver.support.select import Select

    from stopwise.pages import write

    rng = np.random.default_rng(21)
    X = rng.uniform(size=(50, 2))
    Y = np.column_stack([np.sin(5 * X[:, 0]), X[:, 1]]) + 0.1 * rng.normal(size=(50, 2))
    model = sw.KernelGradientRegressor("gaussian").fit(X, Y)
    write(model, tmp_path / "page.html", target=["wave", "line"])
    open_page(browser, tmp_path / "page.html")
    for at, name in enumerate(["wave", "line"]):
        Select(browser.find_element("id", "response")).select_by_visible_text(name)
        shown, path = numbers(browser), model.path_[at]  # each response has a kernel of its own
        assert shown["step_sum"] == model.step_sum_[at]
        assert shown["rmse_fit"] == pytest.approx(float(path.residual_norm(shown["step_sum"])), rel=1e-6)
        whys = [p.text for p in browser.find_elements("css selector", "p.why") if p.is_displayed()]
        assert whys == [sw.explain(model).splitlines()[at].split(": ", 1)[1]]
    silent(browser)


def test_the_threshold_of_two_classes_moves_the_confusion_table(browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    from stopwise.pages import write

    rng = np.random.default_rng(23)
    X = rng.normal(size=(80, 2))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=80) > 0, "ill", "well")
    model = sw.KernelGradientClassifier("gaussian").fit(X, y)
    write(model, tmp_path / "page.html", X=X, y=y)
    browser.get_log("browser"), browser.get_log("performance")
    browser.get((tmp_path / "page.html").as_uri())
    silent(browser)
    slider = browser.find_element("id", "threshold")

    def table():
        return [float(cell.text) for cell in browser.find_elements("css selector", "[data-cell]")]

    middle = table()
    assert sum(middle) == 80
    slider.send_keys(Keys.HOME)
    assert table()[::2] == [0, 0]  # at 0 every row is taken for the second class
    slider.send_keys(Keys.END)
    assert table()[1::2] == [0, 0]
    assert browser.get_log("browser") == []


def test_the_stop_of_classes_can_be_moved_and_brought_back(browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    from stopwise.pages import write

    rng = np.random.default_rng(29)
    X = rng.normal(size=(120, 2))
    y = np.digitize(X[:, 0] + 0.7 * rng.normal(size=120), [-0.5, 0.5])
    model = sw.KernelGradientClassifier("gaussian").fit(X, y)
    write(model, tmp_path / "page.html", X=X, y=y)
    slider = open_page(browser, tmp_path / "page.html")
    silent(browser)

    def shown(name):
        return float(browser.find_element("css selector", f"[data-clock={name}]").get_attribute("data-value"))

    home = shown("at"), shown("loss")
    assert home == pytest.approx((model.step_sum_, model.stop_.evidence.criterion), rel=1e-6)
    sure = shown("certainty")
    slider.send_keys(Keys.END)
    assert shown("at") > home[0]
    assert shown("certainty") > sure
    browser.find_element("id", "back").click()
    assert (shown("at"), shown("loss")) == home
    assert browser.get_log("browser") == []
