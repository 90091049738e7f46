"""report.html: one page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import yaml
from matplotlib.figure import Figure

from judgebench.metrics import CORRELATIONS
from judgebench.metrics.levels import shown_level
from judgebench.metrics.robustness import CLEAN
from judgebench.report import (
    choices,
    comparative,
    diagnosis,
    differences,
    levels,
)
from judgebench.report import pairwise as ranked
from judgebench.report.answers import (
    HUMANS,
    Favorite,
    best_sentences,
    change_sentences,
    favorite_sentences,
    favorites,
    spread_sentences,
)
from judgebench.report.browser.data import browse
from judgebench.report.browser.judged import Judged
from judgebench.report.flags import FLAGS_AT, none_note, raised
from judgebench.report.humans import MAPPING_NOTE, Scale, mapping_note, spans
from judgebench.report.layout import PAGE
from judgebench.report.page import render_page, shown_figure
from judgebench.report.results import (
    Block,
    arrange,
    few_note,
    has_intervals,
    level_note,
    missing_note,
    resampled_note,
)
from judgebench.report.sections import rendered
from judgebench.report.served import served_facts
from judgebench.report.tables import examples_word, groups_word
from judgebench.report.views.attacks import attack_sentences, gap_sentences
from judgebench.report.views.defenses import defense_sentences, preparation_sentences
from judgebench.results.results import Results, unattacked
from judgebench.results.series import NO_DEFENSE, distinct, range_of, shown_split


def render_report(results: Results, figures: Mapping[str, Figure]) -> str:
    """The page of a run as text: answers in sentences, tables, figures, flags, cost.

    Args:
        figures: what `draw_all` returned; their captions become the page's.
    """
    browser = browse([Judged.of(results)]) if len(results.readings) else None
    context = _context(results) | {"browser": browser}
    pictures = [shown_figure(name, figure) for name, figure in figures.items()]
    sections = rendered(PAGE, results, pictures, context)
    title = f"{results.titles['main']} on {', '.join(context['datasets'])}"
    return render_page("report.html.j2", browser, title=title, sections=sections, **_without(context, "browser"))


def _context(results: Results) -> dict[str, Any]:
    config, environment, scores, records = results.config, results.environment, results.scores, results.metrics
    scale, titles, agreement, comparisons = results.scale, results.titles, results.agreement, results.comparisons
    tuning, similarity, pairwise = results.tuning, results.similarity, results.pairwise
    split = shown_split(record["split"] for record in records)
    clean = unattacked(records)
    blocks, all_blocks = arrange(clean, split), arrange(records, split)
    comparisons = unattacked(comparisons)
    pairs = comparative.arrange_comparative(records)
    # a win is no score to be set on, and its distribution nothing that should be the humans'
    found = [] if pairs else favorites(scores, scale)
    diagnosed = [] if pairs else diagnosis.arrange_diagnostics(clean, unattacked(similarity))
    level = blocks[0].level if blocks else "dataset"
    groups = groups_word(titles)
    level_blocks = levels.arrange_levels(clean, split, groups)
    rankings = ranked.arrange_pairwise(pairwise)
    compared = {name: differences.arrange_comparisons(comparisons, name) for name in CORRELATIONS}
    shown = compared[differences.SHOWN]
    context: dict[str, Any] = {
        "titles": titles,
        "groups": groups,
        "examples": examples_word(titles),
        "pairs": pairs,
        "rankings": rankings,
        "pairwise_note": ranked.pairwise_note(pairwise, groups),
        "datasets": list(dict.fromkeys(record["dataset"] for record in records)),
        "split": split,
        "dimensions": list(dict.fromkeys(scores["dimension"])),
        "ranges": [str(range_of(row)) for row in distinct(scores, ["range_min", "range_max", "range_step"])],
        "blocks": blocks,
        "favorites": _favorite_tables(found),
        "mapping_notes": _mapping_notes(scores, scale),
        "level_note": level_note(level, groups),
        "resampled_note": resampled_note(level, groups),
        "missing_note": missing_note(blocks),
        "other_levels": _other_levels(clean, split, groups),
        "level_blocks": level_blocks,
        "levels_note": levels.levels_note(level_blocks, groups),
        "intervals": has_intervals(blocks),
        "few_note": few_note(blocks, groups),
        "clamped": any(row.clamped_share for block in blocks for section in block.sections for row in section.rows),
        "compared": shown,
        "compared_too": {name: found for name, found in compared.items() if name != differences.SHOWN and found},
        "comparison_note": differences.comparison_note(shown, groups),
        "significance_note": differences.significance_note(shown),
        "compared_intervals": any(row.low is not None for one in shown for row in one.rows),
        "tuned": choices.arrange_tuning(tuning),
        "diagnosed": diagnosed,
        "diagnosis_note": diagnosis.diagnostics_note(clean),
        "flags": raised(all_blocks),
        "no_flags_note": none_note(all_blocks) if all_blocks else "",
        "flags_note": FLAGS_AT.get(level, "").format(groups=groups),
        "agreement": agreement or {},
        "environment": environment,
        "served": served_facts(environment.get("served")),
        # what the report itself took is not known while it is made
        "seconds": {name: value for name, value in (environment.get("seconds") or {}).items() if name != "report"},
        "tokens": dict(environment.get("tokens") or {}),
        "config": yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, width=100),
    }
    asked = {
        "Which judge agrees with the humans?": [] if pairs else best_sentences(_undefended(blocks), groups),
        "How biased is it?": [
            *favorite_sentences(found),
            *comparative.comparative_sentences([one for one in pairs if one.attack == CLEAN] or pairs),
            *ranked.pairwise_sentences(rankings),
            *spread_sentences(blocks),
        ],
        "Does contrasting help?": change_sentences(shown, groups),
        "Can it be fooled?": [*attack_sentences(results), *gap_sentences(results)],
        "Does a defense help?": [*defense_sentences(results), *preparation_sentences(results)],
    }
    context["answers"] = [(question, told) for question, told in asked.items() if told]
    return context


def _undefended(blocks: Sequence[Block]) -> list[Block]:
    """Those without a defense, of which the first questions ask; all where there are none."""
    return [block for block in blocks if block.defense == NO_DEFENSE] or list(blocks)


def _without(context: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in context.items() if key != name}


def _other_levels(records: Sequence[Mapping[str, Any]], split: str, groups: str) -> list[dict[str, Any]]:
    """The tables of the levels that are not the shown one."""
    shown = shown_level(record["level"] for record in records if record["split"] == split)
    names = dict.fromkeys(str(record["level"]) for record in records if record["split"] == split)
    found: list[dict[str, Any]] = []
    for level in names:
        if level != shown:
            blocks: list[Block] = arrange([record for record in records if record["level"] == level], split)
            found.append({"level": level, "blocks": blocks, "note": level_note(level, groups)})
            found[-1]["resampled"] = resampled_note(level, groups) if has_intervals(blocks) else ""
    return found


def _favorite_tables(found: Sequence[Favorite]) -> list[dict[str, Any]]:
    """A table a dimension: ranges down, judges and humans across."""
    tables = []
    for dimension in dict.fromkeys(one.dimension for one in found):
        own = [one for one in found if one.dimension == dimension]
        who = sorted(dict.fromkeys(one.who for one in own), key=lambda name: name == HUMANS)  # they stand last
        cells = {(one.range, one.who): one for one in own}
        ranges = list(dict.fromkeys(one.range for one in own))
        rows = [(str(score_range), [cells.get((score_range, name)) for name in who]) for score_range in ranges]
        tables.append({"dimension": dimension, "who": who, "rows": rows})
    return tables


def _mapping_notes(scores: pd.DataFrame, scale: Mapping[str, Scale]) -> list[str]:
    """How humans were mapped to ranges, and of which dimensions they could not be."""
    dimensions = list(dict.fromkeys(scores["dimension"]))
    notes = [MAPPING_NOTE] if any(spans(scale[dimension]) for dimension in dimensions) else []
    return notes + [f"{one}: {mapping_note(scale[one])}" for one in dimensions if not spans(scale[one])]
