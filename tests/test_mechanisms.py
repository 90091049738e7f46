"""One way of doing each thing: where a mechanism lives, and that no second one comes back."""

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "judgebench"

_FIGURES = ("attacks", "defenses", "scores", "style")
"""Figures after the papers'; all others are charts."""

MECHANISMS = {
    "atomic replacement of a file": (r"\bos\.replace\(", ["runtime/files.py"]),
    "clause of a verdict in code, not in a template": (r'Verdict\(\w+, f?"\w|_replace\(.*clause=f?"', []),
    "retries of requests": (r"\bAsyncRetrying\b", ["judges/served/client.py"]),
    "refusals after which another try may succeed": (r"\b408, 409\b", ["judges/served/protocol.py"]),
    "prompts matched with what was recorded": (r"\bprompt_sha256\"\] ==", ["judges/precomputed/recorded.py"]),
    "isotonic regression": (r"isotonic_regression|IsotonicRegression|\bPAVA\b", ["stats/maps.py"]),
    "folds of groups": (r"% folds\b", ["stats/folds.py"]),
    "p of flipped signs": (r"np\.abs\(permuted\)", ["stats/permutation.py"]),
    "Holm's correction": (r"def \w*holm\w*\(", ["stats/permutation.py"]),
    "a figure of matplotlib": (r"small_multiples\(", [f"report/figures/{name}.py" for name in _FIGURES]),
    "a sweep's figures": (r"plot_contour\(|plot_slice\(|\.imshow\(", ["study/summary.py"]),
    "the decoding in a paper's rows": (r"def \w*decoding_of\(", ["report/paper/tables.py"]),
    "a cell's text of several numbers": (r"\(Formatter\):", ["report/table.py"]),
    "what a command without Hydra begins with": (r"\bexit_code\(f", ["command/words.py"]),
    "items by their keys": (r"groups\.setdefault\(key\(item\)", ["types.py"]),
    "a paper's table": (r"\bPaperTable\(", ["report/paper/tables.py"]),
    "device and inode of a file": (r"\bst_ino\b", ["runtime/files.py"]),
    "SHA-256 of a file": (r"\bhashlib\.file_digest\(", ["runtime/files.py"]),
    "locks of folders": (r"\bflock\(", ["runtime/files.py"]),
    "shapes of plain values and of settings": (r"\bTypeAdapter\(", ["runtime/shapes.py"]),
    "the nearest name": (r"\bget_close_matches\(", ["settings/fields.py"]),
    "a column told by its usual name": (r"\bplain_name\(name\): name", ["data/fields.py"]),
    "a store of readings": (r"\bsqlite3\.connect\(", ["readings/store.py"]),
    "parquet that no changed bit passes": (r"\bwrite_page_checksum\b", ["runtime/parquet.py"]),
}
"""What it is: a pattern of its code, and the files that may hold it."""


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_mechanism_has_one_place(mechanism):
    pattern, places = MECHANISMS[mechanism]
    files = {str(file.relative_to(PACKAGE)): file.read_text("utf-8") for file in PACKAGE.rglob("*.py")}
    assert [name for name in sorted(files) if re.search(pattern, files[name])] == places
