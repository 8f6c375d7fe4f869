"""A real browser, Debian's chromium, for tests of what people look at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers import PATIENCE, wait_for
from zotune.core.processes import supervised

if TYPE_CHECKING:
    from selenium.webdriver import Chrome, ChromeService

OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--window-size=1700,1500",
)


def supervised_service(driver: str) -> ChromeService:
    """Chromium's driver, which ends with these tests however they end, and its browser with it."""
    from selenium.webdriver import ChromeService

    class Supervised(ChromeService):
        def __init__(self) -> None:
            super().__init__(driver)
            self._kept = ExitStack()

        def start(self) -> None:
            self._kept.enter_context(supervised([driver, *self.command_line_args()]))
            wait_for(self.is_connectable)

        def stop(self) -> None:
            self._kept.close()

    return Supervised()


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
    opened = selenium.Chrome(options=options, service=supervised_service(driver))
    yield opened
    opened.quit()


def wait_until(browser: Chrome, found: Callable[[Any], Any], seconds: float = PATIENCE) -> Any:
    """What the page shows, as soon as it shows it."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, seconds, ignored_exceptions=(Exception,)).until(found)


def keep_picture(browser: Chrome, name: str) -> None:
    """A screenshot for the documentation, where ``ZOTUNE_PICTURES`` names a folder."""
    folder = os.environ.get("ZOTUNE_PICTURES")
    if folder:
        browser.save_screenshot(str(Path(folder) / f"{name}.png"))
