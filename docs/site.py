"""What `make docs` needs besides mkdocs.yml: what GitHub shows beyond docs/ is part of the site, and examples are code.

README.md is the first page, and files of the repository that pages point to are pages too, source code as code.
Notebooks become pages of their cells. So one relative link works on GitHub and in the site.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from griffe import Extension
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
NAME = re.compile(r"(?<!<pre>)(?<!</span>)(?<=<code>)[^<]+(?=</code>)")  # in a line of text: a block has lines in spans
BREAKS = re.compile(r"(?<=\w)[/=](?=\w)")
LINK = re.compile(r"(?<=\]\()([^):#\s]+)(?=[)#])")


def place(path: Path) -> str:
    """Where a file of the repository lies in the site: docs/x.md at x.md, judgebench/x.py at judgebench/x.py.md."""
    name = path.relative_to(ROOT).as_posix().removeprefix("docs/")
    if name == "README.md":
        return "index.md"
    if path.suffix == ".ipynb":
        return name.removesuffix(".ipynb") + ".md"
    return name if path.suffix in (".md", ".png", ".svg") else f"{name}.md"


def text_of(path: Path) -> str:
    """A file as a page in Markdown."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return text
    if path.suffix != ".ipynb":
        return f"# {path.name}\n\n````{path.suffix[1:]}\n{text}````\n"
    cells = ((cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"])
    return "\n\n".join(source if kind == "markdown" else f"```python\n{source}\n```" for kind, source in cells)


def on_files(files: Any, config: Any) -> Any:
    """Adds the first page, notebooks, and every file outside docs/ that a page points to."""
    todo = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "docs").rglob("*.ipynb"))]
    seen: set[Path] = set()
    while todo:
        path = todo.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        if files.get_file_from_path(place(path)) is None:
            files.append(File.generated(config, place(path), content=linked(text_of(path), path)))
        if path.suffix in (".md", ".ipynb"):
            todo += [(path.parent / link).resolve() for link in LINK.findall(text_of(path))]
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page of docs/, with links to where files lie in the site."""
    path = ROOT / "docs" / page.file.src_uri
    return markdown if page.file.generated_by else linked(markdown, path)


def on_page_content(html: str, **_: Any) -> str:
    """The page with places where names in it may break: within words they do not."""
    return NAME.sub(lambda name: BREAKS.sub(r"\g<0><wbr>", name[0]), html)


def linked(markdown: str, path: Path) -> str:
    """The text of a file with links between places of the site in place of those between files; others as they are."""

    def moved(link: re.Match[str]) -> str:
        target = (path.parent / link[0]).resolve()
        if not target.is_file() or not target.is_relative_to(ROOT):
            return link[0]
        return os.path.relpath(place(target), os.path.dirname(place(path)) or ".")

    return LINK.sub(moved, markdown)


class Examples(Extension):  # type: ignore[misc]
    """Shows what stands under "Example:" in a docstring as code; griffe knows "Examples:", and there doctests alone."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is None:
            return
        head, found, code = obj.docstring.value.partition("Example:\n")
        if found and ">>>" not in code.split("\n")[0]:
            code = re.sub(r"^(?=[ ]{4})", "    ", code, flags=re.MULTILINE)
        if found:
            obj.docstring.value = f"{head}Examples:\n{code}"
