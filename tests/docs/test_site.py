"""The documentation site: built strictly, complete, and asking no other host."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from tests.snippets import ROOT
from zotune.directions import DIRECTIONS
from zotune.estimators import ESTIMATORS
from zotune.steps import STEPS
from zotune.updates import UPDATES

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = [pytest.mark.docs, pytest.mark.xdist_group("site")]
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="pip install 'zotune[docs]'")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class Assets(HTMLParser):
    """Addresses that a page loads by itself; those that a reader may click are not among them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        told = dict(attributes)
        if tag in LOADED and told.get("rel") not in ("canonical", "prev", "next"):
            self.found.append(told.get(LOADED[tag]) or "")


def test_pages_refer_to_no_asset_of_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        assets = Assets()
        assets.feed(page.read_text(encoding="utf-8"))
        assert assets.found
        assert [one for one in assets.found if re.match(r"(https?:)?//", one)] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", sheet.read_text("utf-8"))


@pytest.mark.parametrize("page", ["index", "architecture", "catalogue", "gallery/index"])
def test_a_browser_that_opens_a_page_asks_this_host_only(
    page: str, browser: Chrome, address: str
) -> None:
    browser.get(f"{address}/{page}.html")
    script = "return performance.getEntriesByType('resource').map(e => e.name)"
    asked = browser.execute_script(script)
    assert asked
    assert [one for one in asked if not one.startswith((address, "data:"))] == []


def test_every_entry_of_the_registries_is_on_the_site(site: Path) -> None:
    text = (site / "catalogue.html").read_text(encoding="utf-8")
    for name in (*ESTIMATORS, *DIRECTIONS, *UPDATES, *STEPS):
        assert f"<td>{name}</td>" in text


def test_the_gallery_has_a_page_a_picture_and_a_notebook_for_each_script(site: Path) -> None:
    scripts = sorted((ROOT / "docs" / "gallery").glob("*.py"))
    assert len(scripts) == 8
    for script in scripts:
        for suffix in (".html", ".png", ".ipynb", ".py"):
            assert (site / "gallery" / script.with_suffix(suffix).name).is_file()
