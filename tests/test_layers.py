"""Layers of the house, as CONTRIBUTING.md lists them: an import leads down the list, or stays in its room."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "judgebench"
MODULES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted(PACKAGE.rglob("*.py"))
}
SHOW = ("command.", "tracking.", "runs.output", "runs.dry_run", "study.summary", "study.tasks")
"""Modules that show something, which nothing but they takes from `report`."""


def floors() -> dict[str, int]:
    """Room or module of the root -> its line of CONTRIBUTING.md's list, the first being the top."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("An import leads down this list")[2]
    block = re.search(r"(?:^ {4}.*\n)+", text, re.MULTILINE)
    lines = [line[4:] for line in block[0].splitlines() if line[4] != " "]
    rooms = [re.split(r" {2,}", line)[0].split(", ") for line in lines]
    return {room: floor for floor, names in enumerate(rooms) for room in names}


@cache
def nodes(module: str) -> list[ast.AST]:
    """All of a module's syntax tree."""
    return list(ast.walk(ast.parse(MODULES[module].read_text("utf-8"))))


def imports(module: str) -> Iterator[tuple[str, int]]:
    """Modules of the package that a module imports, wherever it does, and the lines."""
    for node in nodes(module):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: {node.lineno}: an import is by its whole name"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else str(node.module) for name in whole]
        else:
            continue
        yield from ((name, node.lineno) for name in names if name in MODULES)


def for_types(module: str) -> set[int]:
    """Lines of a module whose imports are names for types alone, which make no circle."""
    lines = set()
    for node in nodes(module):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            lines |= {*range(node.lineno, node.end_lineno + 1)}
    return lines


def room(module: str) -> str:
    """The folder of `judgebench/` that a module is in, or its own name."""
    return module.removeprefix("judgebench.").partition(".")[0].replace("judgebench", "__init__")


def test_the_list_names_every_room():
    assert set(floors()) == {room(module) for module in MODULES}


def test_no_import_leads_up():
    floor = floors()
    assert not [
        f"{module}:{line} imports {name}"
        for module in MODULES
        for name, line in imports(module)
        if room(name) != room(module) and floor[room(name)] <= floor[room(module)]
    ]


@pytest.mark.parametrize("folder", sorted({room(module) for module in MODULES}))
def test_no_circle_of_modules(folder):
    taken = {}
    for module in (module for module in MODULES if room(module) == folder):
        skipped = for_types(module)
        taken[module] = {name for name, line in imports(module) if line not in skipped} - {module}
    try:
        TopologicalSorter(taken).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_only_what_shows_imports_the_report():
    taken = {module for module in MODULES for name, _ in imports(module) if room(name) == "report"}
    others = {module.removeprefix("judgebench.") for module in taken if room(module) != "report"}
    assert sorted(module for module in others if not module.startswith(SHOW)) == []
