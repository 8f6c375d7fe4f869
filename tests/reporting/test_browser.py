"""The report in a real browser: it answers the mouse, switches curves, and asks nobody."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import keep_picture

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.slow
WATCH = """window.complaints = [];
addEventListener("error", e => complaints.push(String(e.message)));
addEventListener("securitypolicyviolation", e => complaints.push(e.blockedURI));
for (const word of ["error", "warn"]) console[word] = (...said) => complaints.push(said.join(" "));
"""
PLACE = """const figure = document.getElementById(arguments[0]);
const mark = JSON.parse(figure.querySelector("script").textContent).marks[arguments[1]];
const [x, y, said] = mark.points[Math.floor(mark.points.length / 2)];
const svg = figure.querySelector("svg");
svg.scrollIntoView({block: "center"});
const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
return [Math.round(at.x), Math.round(at.y), mark.name, said, mark.parts];"""
NEAR = """const figure = document.getElementById(arguments[0]);
const marks = JSON.parse(figure.querySelector("script").textContent).marks;
const [x, y] = marks[arguments[1]].points[Math.floor(marks[arguments[1]].points.length / 2)];
return marks.flatMap(mark => mark.points
    .filter(point => Math.hypot(point[0] - x, point[1] - y) < 3)
    .map(point => [mark.name, point[2]]));"""
"""What every curve says within three units of the spot that is pointed at."""
SEEN = "return document.getElementById(arguments[0]).getBoundingClientRect().width > 0"


@pytest.fixture(scope="module")
def opened(browser: Chrome, written_report: tuple[Path, str]) -> Chrome:
    folder, _ = written_report
    watch = {"source": WATCH}
    made: Any = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", watch)
    browser.get((folder / "report.html").as_uri())
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)
    return browser


def hover(browser: Chrome, figure: str, mark: int) -> tuple[str, str, list[str]]:
    """Point at the middle of a curve; its name, what it says there, and its parts."""
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.action_builder import ActionBuilder

    x, y, name, said, parts = browser.execute_script(PLACE, figure, mark)
    pointer = ActionBuilder(browser)
    pointer.pointer_action.move_to_location(x, y)
    pointer.perform()
    ActionChains(browser).pause(0.05).perform()
    return name, said, parts


@pytest.mark.parametrize("figure", ["curves", "guarantee", "final", "best-step", "loss-by-step"])
def test_a_curve_that_is_pointed_at_says_its_name_and_its_value(
    opened: Chrome, figure: str
) -> None:
    hover(opened, figure, 0)
    tip = opened.find_element("id", "tip")
    assert tip.is_displayed()
    assert tip.text.split("\n") in opened.execute_script(NEAR, figure, 0)
    keep_picture(opened, f"report-{figure}")


def test_a_click_on_the_legend_takes_a_curve_away_and_brings_it_back(opened: Chrome) -> None:
    name, _, parts = hover(opened, "curves", 1)
    assert name == "align, q = 10"
    key = opened.find_element("css selector", '#curves [data-key="q = 10"]')
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert not any(opened.execute_script(SEEN, part) for part in parts)
    hover(opened, "curves", 1)
    assert "q = 10" not in opened.find_element("id", "tip").text
    key.send_keys(" ")
    assert key.get_attribute("aria-pressed") == "true"
    assert all(opened.execute_script(SEEN, part) for part in parts)


def test_switching_off_the_bound_leaves_the_curves(opened: Chrome) -> None:
    opened.find_element("css selector", '#guarantee [data-key="theory bound"]').click()
    dashed = opened.execute_script(
        "return Array.from(document.querySelectorAll('#guarantee .off-part'), p => p.id)"
    )
    assert dashed
    shown = opened.execute_script(
        "return JSON.parse(document.querySelector('#guarantee script').textContent).marks"
    )
    for mark in shown:
        assert set(mark["parts"]) <= set(dashed) or not set(mark["parts"]) & set(dashed)
        assert mark["name"].startswith("theory bound") == (mark["parts"][0] in dashed)


def test_the_page_complains_about_nothing_and_asks_no_network(opened: Chrome) -> None:
    assert opened.execute_script("return complaints") == []
    loaded = opened.execute_script(
        "return performance.getEntriesByType('resource').map(entry => entry.name)"
    )
    assert loaded == []
    text = opened.find_element("tag name", "body").text
    assert "Does <averaging> want one query a step?" in text
