"""One way of doing each thing: where a mechanism lives, and that no second one comes back."""

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "judgebench"

MECHANISMS = {
    "atomic replacement of a file": (r"\bos\.replace\(", ["runtime/files.py"]),
    "retries of requests": (r"\bAsyncRetrying\b", ["judges/served/client.py"]),
    "refusals after which another try may succeed": (r"\b408, 409\b", ["judges/served/protocol.py"]),
    "prompts matched with what was recorded": (r"\bprompt_sha256\"\] ==", ["judges/precomputed/recorded.py"]),
}
"""What it is: a pattern of its code, and the files that may hold it."""


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_mechanism_has_one_place(mechanism):
    pattern, places = MECHANISMS[mechanism]
    files = {str(file.relative_to(PACKAGE)): file.read_text("utf-8") for file in PACKAGE.rglob("*.py")}
    assert [name for name in sorted(files) if re.search(pattern, files[name])] == places
