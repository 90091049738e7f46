"""What a page carries along: unchanged libraries, small, and nothing that would end a script element."""

import hashlib
import importlib.util
import sys
from pathlib import Path

from judgebench.report.html import _BROWSER_SCRIPTS, _BROWSER_STYLES, _SCRIPTS, _STYLES, asset


def vendoring():
    path = Path(__file__).resolve().parents[2] / "scripts" / "vendor_assets.py"
    spec = importlib.util.spec_from_file_location("vendor_assets", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_libraries_are_those_that_were_checked():
    found = vendoring()
    for library in found.LIBRARIES:
        assert hashlib.sha256((found.VENDOR / f"{library.name}.js").read_bytes()).hexdigest() == library.bundled
        assert "Copyright (c)" in (found.VENDOR / f"{library.name}.LICENSE").read_text("utf-8")


def test_what_every_page_carries_is_small_and_stays_within_its_elements():
    names = (*_STYLES, *_SCRIPTS, *_BROWSER_STYLES, *_BROWSER_SCRIPTS)
    assert sum(len(asset(name).encode()) for name in names) < 300_000
    for name in names:
        text = asset(name).lower()
        for ending in ("</script", "</style", "<!--", "eval(", "new function("):
            assert ending not in text, name
        assert "innerhtml" not in text or name.startswith("vendor/"), "what a text says is put in as text alone"
