"""Uses of a judge, and whether it may be put to them: the report's last word, a sentence a use."""

from __future__ import annotations

import numpy as np

from judgebench.report.formats import is_known
from judgebench.report.say import say
from judgebench.report.table import records
from judgebench.report.views.beside import best_pairs, correlated, judge_name, judge_rows, series_key
from judgebench.report.views.correlations import best_of
from judgebench.report.views.humans import human_figures
from judgebench.report.views.systems import means_are_off, misleads, systems_frame
from judgebench.results.results import Results
from judgebench.stats.alternative import FEWEST_RATERS
from judgebench.stats.clusters import FEWEST
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS
from judgebench.stats.humans import RAW


def use_sentences(results: Results) -> list[str]:
    """A dimension's verdicts on the judge and range that agree best with the humans there: may it order texts, stand in
    for a rater, rank systems, and may its scores be reported as the humans'? Each with the figure that decides it."""
    orders = {series_key(row): row for row in correlated(results)}
    systems = {series_key(row): row for row in records(systems_frame(results))}
    sentences = []
    for condition, raw, fitted in best_pairs(results):
        row, system = orders.get(series_key(raw)), systems.get(series_key(raw))
        human = human_figures(results).get(str(raw["dimension"]), {})
        difference = [None if row is None else row.get(f"humans_difference{end}") for end in ("_low", "_high")]
        # A test that is not passed may lack texts: "no" is for a judge that loses by more than the test allows.
        lost = [rater["advantage_rater"] - rater["advantage_judge"] for rater in raw["raters"]]
        tried = [other for other in judge_rows(results) if other["scores"] == RAW
                 and all(other[name] == raw[name] for name in ("dimension", "defense"))]  # fmt: skip
        sentences.append(
            say(
                "uses",
                condition=condition,
                name=judge_name(results, raw),
                groups=results.groups,
                few=max(raw["groups"], fitted["groups"]) < FEWEST,  # raw scores without a scale have none
                failed=0.0 if row is None else row.get("failed_share") or 0.0,
                flags=() if row is None else row.get("flags") or (),
                compared=None not in difference and is_known(human.get("ceiling")),
                loses_little=bool(lost) and bool(np.mean(lost) < raw["epsilon"]),
                off="" if system is None else means_are_off(system),
                misleads=system is not None and misleads(system),
                picked=best_of(tried) if len(tried) > 1 else "",
                **{"row": row, "human": human, "raw": raw, "fitted": fitted, "system": system},
                **{"CONSTANT": CONSTANT, "CONSTANT_HUMANS": CONSTANT_HUMANS, "FEWEST_RATERS": FEWEST_RATERS},
            )
        )
    return sentences
