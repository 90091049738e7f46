"""The form of the code: one thing a line, counted in nodes of the syntax tree.

A line of code that holds ten expressions and statements takes several readings. So the mean of the
package has a bound, and so has the share of functions that are denser. A function fits on a screen.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "judgebench").rglob("*.py"))

MEAN = 7.5
"""Nodes a line of code in the package."""

SHARES = {8: 0.20, 10: 0.02}
"""Nodes a line -> the largest share of functions that may have more."""

SHORT = 8
"""Lines of code below which a function counts in the mean alone."""

Node = ast.expr | ast.stmt


def size(node: ast.AST) -> int:
    """The expressions and statements in a part of a syntax tree."""
    return sum(isinstance(part, Node) for part in ast.walk(node))


def is_prose(node: ast.AST) -> bool:
    """True for a docstring, or a text below a constant."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def code_lines(tree: ast.AST, text: str) -> set[int]:
    """The numbers of the lines that hold code: no comments, docstrings, imports or blanks."""
    lines = set()
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.strip().startswith("#"):
            lines.add(number)
    for node in ast.walk(tree):
        if is_prose(node) or isinstance(node, ast.Import | ast.ImportFrom):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return lines


def densities() -> tuple[float, dict[str, float]]:
    """Nodes a line of the package, and of each function that is not short, by its place."""
    nodes = lines = 0
    functions = {}
    for file in FILES:
        text = file.read_text("utf-8")
        tree = ast.parse(text)
        code = code_lines(tree, text)
        nodes += size(tree)
        lines += len(code)
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            inside = code & set(range(node.body[0].lineno, node.end_lineno + 1))
            if len(inside) >= SHORT:
                place = f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
                functions[place] = sum(map(size, node.body)) / len(inside)
    return nodes / lines, functions


@pytest.fixture(scope="module")
def measured():
    return densities()


def test_the_package_holds_one_thing_a_line(measured):
    assert measured[0] <= MEAN


@pytest.mark.parametrize("most", SHARES)
def test_few_functions_are_dense(measured, most):
    functions = measured[1]
    dense = {place: density for place, density in functions.items() if density > most}
    listed = "\n".join(f"{density:.1f} {place}" for place, density in sorted(dense.items()))
    assert len(dense) <= SHARES[most] * len(functions), f"write one thing a line here:\n{listed}"


# --- functions ------------------------------------------------------------------------------------

LONGEST = 60
"""Lines of a function's body, comments included, its docstring not."""


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function's body behind its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_function_fits_on_a_screen(file):
    tree = ast.parse(file.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lines = {f"{node.name}, line {node.lineno}": body_lines(node) for node in functions}
    assert {place: count for place, count in lines.items() if count > LONGEST} == {}
