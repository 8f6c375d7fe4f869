"""A real browser, Debian's chromium, for tests of what people look at."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PR_SET_PDEATHSIG = 1
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--window-size=1700,1500",
)


def end_with_parent() -> None:
    """Let the driver, and its browser with it, end when these tests are killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    """Chromium without a window; skipped, with the reason, where it is not installed."""
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("Debian's chromium and chromium-driver are not installed")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for option in OPTIONS:
        options.add_argument(option)
    service = selenium.ChromeService(driver, popen_kw={"preexec_fn": end_with_parent})
    opened = selenium.Chrome(options=options, service=service)
    yield opened
    opened.quit()


def wait_until(browser: Chrome, found: Callable[[Any], Any], seconds: float = 60) -> Any:
    """What the page shows, as soon as it shows it."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, seconds, ignored_exceptions=(Exception,)).until(found)


def keep_picture(browser: Chrome, name: str) -> None:
    """A screenshot for the documentation, where ``ZOTUNE_PICTURES`` names a folder."""
    folder = os.environ.get("ZOTUNE_PICTURES")
    if folder:
        browser.save_screenshot(str(Path(folder) / f"{name}.png"))
