"""Fits the Markdown of the repository into the site: README.md and the like become pages, and
links to files that are not pages become plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
SHIM = "https://unpkg.com/iframe-worker/shim"  # the theme's; pages must need no other server
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are kept outside docs/."""
    for source, name in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=inside_docs(text)))
    return files


def inside_docs(text: str) -> str:
    """A document of the repository's root, with links as from inside docs/."""
    text = text.replace("](docs/", "](").replace('src="docs/', 'src="')
    for source, name in PAGES.items():
        text = text.replace(f"]({source})", f"]({name})")
    return text


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to folders and source files, which GitHub shows and the site does not have."""
    folder = Path(page.file.src_uri).parent

    def plain(found: re.Match[str]) -> str:
        words, target, _ = found.groups()
        if target.startswith(("http", "mailto:")) or is_page(folder, target, files):
            return found[0]
        return words

    return LINK.sub(plain, markdown)


def is_page(folder: Path, target: str, files: Files) -> bool:
    """Whether a link leads to a page or a picture of the site."""
    parts: list[str] = []
    for part in (folder / target).parts:
        parts = parts[:-1] if part == ".." and parts else [*parts, part]
    name = "/".join(parts)
    file = files.get_file_from_path(name)
    if file is None:
        return name.endswith(".md")  # a page that is missing must not be hidden
    return not file.inclusion.is_excluded()


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Search without another server, also in pages that are opened from disk."""
    above = "../" * page.url.count("/")
    return output.replace(SHIM, f"{above}site/file_worker.js")


def on_post_template(output: str, template_name: str, config: Any) -> str:
    """The same for the page of addresses that do not exist."""
    return output.replace(SHIM, "/site/file_worker.js")
