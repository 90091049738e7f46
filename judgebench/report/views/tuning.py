"""The selected lambda and t of each range, and how far the search can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from judgebench.report.formats import general, three
from judgebench.report.say import say
from judgebench.report.table import Col, Rows, View, rows_by
from judgebench.results.results import Results
from judgebench.results.series import range_of

HOW: Mapping[str, str] = {
    "dev": "the best point of the grid by Spearman on the dev split, for each range",
    "exact": "the best of all kappas by Spearman on the dev split, for each range",
    "shared": "one point of the grid for all ranges, the best by mean Spearman on the dev split",
    "published": "what the contrastive-decoding paper prints",
}
"""The rule by which each `tune` selects."""


def tuning_blocks(tuning: Sequence[Mapping[str, Any]] | None) -> list[Rows]:
    """The records of tuning.json by dimension and decoding, in order of appearance, ranges ascending."""
    blocks = rows_by([dict(record) for record in tuning or ()], ["dimension", "decoding"])
    return [sorted(rows, key=lambda row: range_of(row).order) for rows in blocks]


def how_selected(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rule by which a tuned decoding's lambda and t were selected, in words."""
    return HOW.get(rows[0]["tune"], str(rows[0]["tune"]))


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    exact, best = record["exact"], {}
    if exact:
        count = len(exact.get("intervals") or ())
        interval = (
            f"{exact['low']:.3g} to {exact['high']:.3g}" if exact["high"] is not None else f"above {exact['low']:.3g}"
        )
        best = {f"exact_{name}": exact[name] for name in ("dev", "test")}
        best |= {"exact": interval + (f" of {count}" if count > 1 else "")}
        best |= {"width": "∞" if exact["width"] is None else f"{exact['width']:.3g}"}
    flags = [name for name in ("edge", "constant") if record[name]]
    added = {"how": how_selected([record]), "range": str(range_of(record)), "flags": flags, "exact": None}
    return {**record, **added, **best}


def _note(results: Results, rows: Any) -> str:
    blocks, subjects = tuning_blocks(results.tuning), dict[str, str]()
    for block in blocks:
        exact = [row["exact"] for row in block if row["exact"] is not None]
        facts = {
            "widths": [f"{width:.2g}" for width in sorted(row["width"] for row in exact if row["width"] is not None)],
            "exact": exact,
        }
        facts["below"] = [row["grid_below_exact"] for row in block if row["grid_below_exact"] is not None]
        shared = {split: value for split, value in (block[0].get("shared") or {}).items() if value is not None}
        about = f"{block[0]['dimension']}, {block[0]['decoding']}: " if len(blocks) > 1 else ""
        for text in (say("tuned", part="shared", shared=shared), say("tuned", part="grid", rows=block, **facts)):
            subjects.setdefault(text, about)  # what is true of several stands once
    return " ".join(f"{about}{text}" for text, about in subjects.items() if text)


TUNING = View(
    "tuning", "Tuning", lambda results: [_row(record) for block in tuning_blocks(results.tuning) for record in block],
    (
        Col("range", "range", left=True),
        Col("selected", "λ {lambda:.4g}, t {temperature:.4g}", flags="flags", left=True),
        Col("κ = λ / t", "kappa", general, says="scores by argmax depend on it alone"),
        Col("dev", "dev", three, says="Spearman on this split"),
        Col("test", "test", three),
        Col("exactly best κ", "exact", left=True, optional=True,
            says="the interval in which Spearman on the dev split is highest, found without a search"),
        Col("width", "width", optional=True, page=True),
        Col("dev", "exact_dev", three, optional=True),
        Col("test", "exact_test", three, optional=True),
        Col("grid below it", "grid_below_exact", three, optional=True, page=True),
    ),
    by=["dimension", "decoding"], title="{dimension}: {decoding}", size="{how}", note=_note,
)  # fmt: skip
