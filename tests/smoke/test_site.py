"""The documentation site is built without a warning, and its links lead somewhere."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        loads = {"img": "src", "script": "src", "link": "href"}.get(tag)
        if loads and found.get(loads) and found.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(found[loads])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_document_is_a_page(site):
    documents = (ROOT / "docs").rglob("*.md")
    tables = set((ROOT / "docs" / "results").rglob("table.md"))
    for path in set(documents) - tables:
        name = path.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / name).exists() or (site / name.with_name("index.html")).exists(), name
    assert (site / "index.html").exists()
    assert (site / "changelog.html").exists()


def test_links_of_the_site_lead_somewhere(site, pages):
    checked = 0
    for path, page in pages.items():
        if path.name == "404.html":  # its links are those of a server
            continue
        for link in [*page.links, *page.loads]:
            to = urlsplit(link)
            if to.scheme in ("http", "https", "mailto"):
                continue
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            assert target.exists(), f"{path.relative_to(site)} links to {link}"
            if to.fragment and target in pages and to.fragment != "__skip":
                anchors = pages[target].anchors
                assert unquote(to.fragment) in anchors, f"{path.relative_to(site)}: {link}"
            checked += 1
    assert checked > 1000


def test_pages_load_nothing_from_other_servers(site, pages):
    for path, page in pages.items():
        for address in page.loads:
            assert not urlsplit(address).netloc, f"{path.relative_to(site)} loads {address}"
    for style in (site / "assets" / "stylesheets").glob("*.css"):
        assert "@import" not in style.read_text(encoding="utf-8")


def test_the_public_names_are_documented(pages):
    import brigade

    (api,) = [page for path, page in pages.items() if path.name == "api.html"]
    for name in set(brigade.__all__) - {"__version__"}:
        assert f"brigade.{name}" in api.anchors, name
    for name in ("TrainedPolicy.act", "TrainedPolicy.game", "Game.step", "PolicyFile.policy"):
        assert f"brigade.runs.trained.{name}" in api.anchors


def test_the_site_can_be_searched(site):
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "Elastic weight consolidation" in index
