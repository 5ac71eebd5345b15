"""Builds the documentation site from the Markdown of the repository: `build/site/html`.

    python scripts/site.py            # every warning is an error: a broken link, a page in no list
    python scripts/site.py --fast     # only pages that changed

`docs/README.md` is the one list of pages: each of its tables becomes a part of the navigation, in its order.
The pages themselves stay plain Markdown that also reads well in the repository. A link to a file that is no
page of the site becomes plain text, and a link whose text is a file name shows the title of the page.
Also written: `llms.txt`, the list of pages with their titles, and `llms-full.txt`, their text.
Never: anything from the network. The pages load no script, style or font of another place.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "docs" / "site"
PLACE = ROOT / "build" / "site"
SOURCE = PLACE / "source"
HTML = PLACE / "html"
INDEX = Path("docs/README.md")
# Pages beside docs/, and where they stand in the site.
OUTSIDE = {
    Path("README.md"): Path("about/readme.md"),
    Path("ARCHITECTURE.md"): Path("about/architecture.md"),
    Path("CONTRIBUTING.md"): Path("about/contributing.md"),
    Path("CHANGELOG.md"): Path("about/changelog.md"),
    Path("tests/README.md"): Path("about/tests.md"),
    Path("proof/README.md"): Path("about/proof.md"),
}
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)
BUILD = (
    "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
)
"""Sphinx without garbage collection, which takes half of its time: all trees of pages live until its end."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the navigation: a heading of the index and the pages of the table below it."""

    title: str
    pages: tuple[Path, ...]


def main(arguments: list[str]) -> int:
    if set(arguments) - {"--fast"}:
        print(__doc__)
        return 2
    placed = places()
    write_sources(placed)
    done = subprocess.run(
        [
            *(sys.executable, "-c", BUILD, "-b", "html", "-W", "--keep-going", "-q"),
            *(() if "--fast" in arguments else ("-E",)),
            *("-c", str(SITE), "-d", str(PLACE / "doctrees"), str(SOURCE), str(HTML)),
        ],
        check=False,
    )
    if done.returncode:
        return 1
    write_texts(placed)
    print(f"  documentation: {len(placed)} pages in {HTML.relative_to(ROOT)}/index.html")
    return 0


def places() -> dict[Path, Path]:
    """Where each page of the repository stands in the site."""
    docs = ROOT / "docs"
    inside = {
        path.relative_to(ROOT): path.relative_to(docs)
        for path in sorted(docs.rglob("*.md"))
        if path.relative_to(ROOT) != INDEX
    }
    return {INDEX: Path("index.md"), **inside, **OUTSIDE}


def write_sources(placed: dict[Path, Path]) -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    for page, place in placed.items():
        target = SOURCE / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text = with_links((ROOT / page).read_text("utf-8"), page, placed)
        target.write_text(text + navigation(placed) if page == INDEX else text, "utf-8")
    pictures = ROOT / "docs" / "pictures"
    if pictures.exists():
        shutil.copytree(pictures, SOURCE / "pictures")


def with_links(text: str, page: Path, placed: dict[Path, Path]) -> str:
    """The text with links that lead to the places of the site, outside code."""
    pieces = FENCE.split(text)
    code = False
    for number, piece in enumerate(pieces):
        if piece in ("```", "~~~"):
            code = not code
        elif not code:
            pieces[number] = LINK.sub(lambda found: placed_link(found, page, placed), piece)
    return "".join(pieces)


def placed_link(found: re.Match[str], page: Path, placed: dict[Path, Path]) -> str:
    target, _, anchor = found["target"].partition("#")
    if not target or "://" in target or target.startswith("mailto:"):
        return found[0]
    aim = (ROOT / page.parent / target).resolve().relative_to(ROOT)
    if found["image"]:
        aim = aim.relative_to("docs") if aim.is_relative_to("docs") else aim
        return f"![{found['text']}](/{aim.as_posix()})"
    if aim not in placed:
        if not (ROOT / aim).exists():
            raise SystemExit(f"{page}: the link {found['target']} leads to no file")
        return found["text"]
    text = found["text"]
    if text.endswith(".md"):
        text = title_of((ROOT / aim).read_text("utf-8"))
    return f"[{text}](/{placed[aim].as_posix()}{'#' if anchor else ''}{anchor})"


def parts() -> list[Part]:
    """The tables of the index, and at the end the pages beside them."""
    text = (ROOT / INDEX).read_text("utf-8")
    pieces = HEADING.split(text)[1:]
    found = []
    for title, body in zip(pieces[::2], pieces[1::2], strict=True):
        rows = [line for line in body.splitlines() if line.startswith("|")]
        targets = [link["target"] for row in rows for link in LINK.finditer(row)]
        pages = dict.fromkeys(Path(target.partition("#")[0]) for target in targets)
        found.append(Part(title, tuple(page for page in pages if page.suffix == ".md")))
    return [*found, Part("The project", tuple(OUTSIDE.values()))]


def navigation(placed: dict[Path, Path]) -> str:
    listed = [page for part in parts() for page in part.pages]
    missing = set(placed.values()) - set(listed) - {Path("index.md")}
    if missing:
        raise SystemExit(f"{INDEX} does not list {', '.join(sorted(map(str, missing)))}")
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {part.title}\n\n"
        + "".join(f"{page.with_suffix('').as_posix()}\n" for page in part.pages)
        + "```\n"
        for part in parts()
    )


def write_texts(placed: dict[Path, Path]) -> None:
    """The list of pages and their text, for programs that read."""
    of_place = {place: page for page, place in placed.items()}
    lines = ["# Holdfast", ""]
    whole = []
    for part in parts():
        lines += [f"## {part.title}", ""]
        for place in part.pages:
            text = (ROOT / of_place[place]).read_text("utf-8")
            lines.append(f"- [{title_of(text)}]({place.with_suffix('.html').as_posix()})")
            whole.append(text)
        lines.append("")
    (HTML / "llms.txt").write_text("\n".join(lines), "utf-8")
    (HTML / "llms-full.txt").write_text("\n\n".join(whole), "utf-8")


def title_of(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else "?"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
