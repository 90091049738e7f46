"""One meaning for one public name, and docstrings that say what a thing is."""

import ast
import collections
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "judgebench").rglob("*.py"))
KNOWN = ROOT / "tests" / "known_words.txt"
"""Exceptions that are still there, each a line: a name defined twice, or a file and the first line of its docstring."""

RIDDLES = {"What", "Whether", "How", "Those", "Where", "Who", "Whose", "That"}
"""First words of a docstring that names a question in place of a thing: "What a search has found" is a `Found`."""


def names_defined_twice() -> set[str]:
    """Public top-level functions and classes that two files define; each command has a `main`."""
    places = collections.defaultdict(set)
    for file in FILES:
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(file)
    return {name for name, files in places.items() if len(files) > 1} - {"main"}


def riddles() -> set[str]:
    """Docstrings of modules, classes and functions that open with a question word."""
    found = set()
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                if text.split(" ")[0].strip(",.:") in RIDDLES:
                    found.add(f"{file.relative_to(ROOT).as_posix()}: {text.splitlines()[0]}")
    return found


@pytest.mark.parametrize("measure", [names_defined_twice, riddles], ids=lambda measure: measure.__name__)
def test_words_are_plain(measure):
    """The exceptions may only shrink."""
    lines = KNOWN.read_text("utf-8").splitlines() if KNOWN.is_file() else []
    known = {line for line in lines if (": " in line) == (measure is riddles)}
    found = measure()
    assert not sorted(found - known), "new exceptions: find a name of its own, or a noun or verb to open with"
    assert not sorted(known - found), f"no longer exceptions: take them out of {KNOWN.name}"
