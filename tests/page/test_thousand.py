"""A thousand trials, looked at: the page opens on the best, a click changes a chart, a report."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import wait_until
from tests.page.many_runs import fill
from tests.servers import PATIENCE
from zotune.callbacks.page import MOST_SHOWN

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.long
LINES = """return Array.from(document.querySelectorAll('.js-plotly-plot'))
    .filter(plot => plot.data && plot.data.length)
    .map(plot => new Set(plot.data.map(trace => trace.name)).size)[0] || 0"""
"""How many runs the first chart shows."""
HIDE = "document.querySelectorAll('.is-visibility-toggle-checkbox')[2].click()"
"""A click at the eye of one of the first runs."""
PROGRAM = [sys.executable, "-m", "zotune.cli"]


@pytest.fixture(scope="module")
def thousand(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a thousand runs of one launch."""
    folder = tmp_path_factory.mktemp("thousand")
    shutil.copy(empty_store, folder / "mlflow.db")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    assert fill(uri, "many", folder) == 1000
    return uri


@pytest.fixture
def address(thousand: str) -> Iterator[str]:
    """What ``zotune ui`` prints; its server ends with the test."""
    began = time.monotonic()
    words = ["ui", "many", "--tracking-uri", thousand, "--no-open"]
    process = subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.match(r"page: (\S+)", process.stdout.readline())
        assert found is not None
        print(f"zotune ui printed its page after {time.monotonic() - began:.1f} s")
        assert process.stdout.readline().startswith(f"the best {MOST_SHOWN} of 1000 runs")
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)


def timed(browser: Chrome, what: str, act: Callable[[], Any], shown: Callable[[int], bool]) -> None:
    """Do something, wait until the first chart shows what it should, and print how long it took."""
    began = time.monotonic()
    act()
    wait_until(browser, lambda _: shown(browser.execute_script(LINES)), 300)
    print(f"{what} after {time.monotonic() - began:.1f} s")


def test_the_page_of_a_thousand_trials_opens_on_the_best_and_a_click_changes_a_chart(
    address: str, browser: Chrome
) -> None:
    timed(browser, "first chart", lambda: browser.get(address), lambda runs: runs == MOST_SHOWN)
    assert f"{MOST_SHOWN} matching runs" in browser.find_element("tag name", "body").text
    hide = lambda: browser.execute_script(HIDE)  # noqa: E731
    timed(browser, "chart without a run", hide, lambda runs: 0 < runs < MOST_SHOWN)


def test_a_report_of_a_thousand_trials_has_their_map_and_the_best_of_each_q(
    thousand: str, tmp_path: Path
) -> None:
    began = time.monotonic()
    words = ["report", "many", "-o", str(tmp_path), "--tracking-uri", thousand]
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(f"zotune report of 1000 trials took {time.monotonic() - began:.1f} s")
    text = (tmp_path / "report.md").read_text()
    assert "1000 trials, ended" in text
    assert text.count("\n| avg | ") == text.count("\n| align | ") == 5
