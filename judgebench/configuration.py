"""Where conf/ lies: beside the package in a checkout, inside it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
FOLDER = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"
"""The configuration folder; its `sweeps` is a link to sweeps/, so that `+sweeps=NAME` finds the studies."""
