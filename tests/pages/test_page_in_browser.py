"""The report in a real browser: silent, offline, moved by mouse and keyboard, and right to the last shown digit."""

import os
import shutil

import numpy as np
import pandas as pd
import pytest

import stopwise as sw
from stopwise.examples import load_example
from stopwise.views.curves import directions

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
    left_out = np.sqrt(np.mean(path.leave_one_out(at) ** 2))
    if np.isfinite(left_out):
        assert shown["rmse_loo"] == pytest.approx(left_out, rel=1e-6)
    else:
        assert np.isnan(shown["rmse_loo"])
    if path.filter.has_steps:
        assert shown["iteration"] == float(path.filter.iteration(at))
    return shown


def assert_curve_is_the_librarys(browser, model, shown):
    state = browser.execute_script(
        "const s = Report.current(); return [Array.from(Report.curve.x), Array.from(s.curve), Array.from(s.std)]"
    )
    x, curve, std = map(np.array, state)
    path, (psi, _) = model.path_, directions(model, x[:, None])
    weight = path.filter.weight(path.spectrum.eigenvalues, shown["step_sum"])
    spread = float(np.std(path.fit(path.step_sum_cap)))
    assert curve == pytest.approx(path.offset + path.scale * psi @ (weight * path.coefficients), abs=1e-6 * spread)
    library = model.noise_std_ * np.sqrt(psi**2 @ weight**2 + path.intercept / path.n_samples)
    assert std == pytest.approx(library, rel=1e-6)


def drawn(browser):
    return browser.find_element("css selector", "#fit path.line.c1").get_attribute("d")


def test_the_page_is_silent_and_asks_the_network_for_nothing(browser, motorcycle):
    import json

    open_page(browser, motorcycle[1])
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert asked == [motorcycle[1].as_uri()]
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_the_page_opens_at_the_chosen_stop_with_the_librarys_numbers(browser, motorcycle):
    model, page = motorcycle
    slider = open_page(browser, page)
    shown = assert_numbers_are_the_librarys(browser, model)
    assert shown["step_sum"] == model.step_sum_
    assert_curve_is_the_librarys(browser, model, shown)
    x = np.array(browser.execute_script("return Array.from(Report.curve.x)"))
    curve = browser.execute_script("return Array.from(Report.current().curve)")
    assert curve == pytest.approx(model.predict(pd.DataFrame({"milliseconds": x})), abs=1e-6)
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
    figures = browser.find_elements("css selector", "svg.plot")
    assert all(figure.get_attribute("role") == "img" and figure.get_attribute("aria-label") for figure in figures)


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
    labels = [node.text for node in browser.find_elements("css selector", "[id^=profile] text.title")]
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
