"""report.html: one page that needs nothing but itself."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import yaml
from matplotlib.figure import Figure

from judgebench.metrics import CORRELATIONS
from judgebench.report import attack_differences as fooling
from judgebench.report import choices, comparative, defended, diagnosis, differences, readied, robustness, suffix_curves
from judgebench.report.answers import (
    HUMANS,
    Favorite,
    change_sentences,
    favorite_sentences,
    favorites,
    spread_sentences,
)
from judgebench.report.defense_files import DefenseRecords
from judgebench.report.figures import svg_without_caption
from judgebench.report.flags import FLAGS_AT, raised
from judgebench.report.humans import MAPPING_NOTE, Scale, mapping_note, spans
from judgebench.report.results import arrange, has_intervals, level_note
from judgebench.report.series import distinct, range_of, shown_split
from judgebench.report.served import served_facts
from judgebench.report.tables import examples_word, groups_word, interval, percent, signed, three

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,  # ids, names and texts come from data sets and models: none of them may become markup
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render_report(
    *,
    config: Mapping[str, Any],
    environment: Mapping[str, Any],
    scores: pd.DataFrame,
    records: Sequence[Mapping[str, Any]],
    figures: Mapping[str, Figure],
    scale: Mapping[str, Scale],
    titles: Mapping[str, str | None],
    agreement: Mapping[str, Mapping[str, float | None]] | None = None,
    comparisons: Sequence[Mapping[str, Any]] = (),
    tuning: Sequence[Mapping[str, Any]] | None = None,
    similarity: Sequence[Mapping[str, Any]] = (),
    suffix: Sequence[Mapping[str, Any]] = (),
    attack_differences: Sequence[Mapping[str, Any]] = (),
    defense: DefenseRecords | None = None,
) -> str:
    """The page as text: what was run, answers in sentences, tables, figures, flags, cost.

    Args:
        config: what `RunFolder.write_config` returned, secrets masked.
        environment: what `RunFolder.write_environment` returned.
        scores, records: scores.parquet and metrics.json.
        figures: what `draw_all` returned; their captions become the page's.
        scale: dimension -> the human scale, None where humans prefer and do not score.
        titles: `main` and `assistant`, the models' names.
        agreement: dimension -> {alpha, spearman} of the experts among themselves, where known.
        comparisons, tuning: comparisons.json and tuning.json, where there are such.
        similarity: `family_records` of the readings.
        suffix, attack_differences: attack/suffix.json and attack/differences.json.
        defense: the records of defense/.
    """
    split = shown_split(record["split"] for record in records)
    clean = robustness.unattacked(records)
    blocks, all_blocks = arrange(clean, split), arrange(records, split)
    attacks = robustness.arrange_attacks(records)
    learned = suffix_curves.arrange_suffix(suffix)
    side_by_side = defended.arrange_defenses(records)
    fooled = fooling.arrange_attack_differences(attack_differences)
    comparisons = robustness.unattacked(comparisons)
    pairs = comparative.arrange_comparative(records)
    # a win is no score to be set on, and its distribution nothing that should be the humans'
    found = [] if pairs else favorites(scores, scale)
    diagnosed = [] if pairs else diagnosis.arrange_diagnostics(clean, robustness.unattacked(similarity))
    level = blocks[0].level if blocks else "dataset"
    groups = groups_word(titles)
    ready = readied.arrange_readied(defense or DefenseRecords(), groups)
    compared = {name: differences.arrange_comparisons(comparisons, name) for name in CORRELATIONS}
    shown = compared[differences.SHOWN]
    return _TEMPLATES.get_template("report.html.j2").render(
        titles=titles,
        groups=groups,
        examples=examples_word(titles),
        pairs=pairs,
        comparative=comparative,
        datasets=list(dict.fromkeys(record["dataset"] for record in records)),
        split=split,
        dimensions=list(dict.fromkeys(scores["dimension"])),
        ranges=[str(range_of(row)) for row in distinct(scores, ["range_min", "range_max", "range_step"])],
        blocks=blocks,
        answers=[
            *favorite_sentences(found),
            *comparative.comparative_sentences([one for one in pairs if one.attack == robustness.CLEAN] or pairs),
            *change_sentences(shown, groups),
            *spread_sentences(blocks),
            *robustness.attack_sentences(attacks),
            *fooling.answers(fooled, groups),
            *readied.readied_sentences(ready),
        ],
        favorites=_favorite_tables(found),
        mapping_notes=_mapping_notes(scores, scale),
        level_note=level_note(level, groups),
        intervals=has_intervals(blocks),
        clamped=any(row.clamped_share for block in blocks for section in block.sections for row in section.rows),
        correlations=CORRELATIONS,
        interval=interval,
        percent=percent,
        three=three,
        attacks=attacks,
        defended=side_by_side,
        defended_note=defended.defended_note(side_by_side),
        ready=ready,
        readied=readied,
        attacks_note=robustness.attacks_note(records, groups) if attacks else "",
        robustness=robustness,
        learned=learned,
        curves=suffix_curves,
        suffix_note=suffix_curves.suffix_note(learned, groups),
        fooled=fooled,
        differences_note=fooling.differences_note(fooled, groups),
        fooling=fooling,
        compared=shown,
        compared_too={name: found for name, found in compared.items() if name != differences.SHOWN and found},
        comparison_note=differences.comparison_note(shown, groups),
        compared_intervals=any(row.low is not None for one in shown for row in one.rows),
        tuned=choices.arrange_tuning(tuning),
        diagnosed=diagnosed,
        diagnosis_note=diagnosis.diagnostics_note(clean),
        differences=differences,
        choices=choices,
        signed=signed,
        flags=raised(all_blocks),
        flags_note=FLAGS_AT.get(level, "").format(groups=groups),
        figures=[
            {"name": name, "caption": figure.get_label(), "source": _data_uri(svg_without_caption(figure))}
            for name, figure in figures.items()
        ],
        agreement=agreement or {},
        environment=environment,
        seconds=dict(environment.get("seconds") or {}),
        tokens=dict(environment.get("tokens") or {}),
        served=served_facts(environment.get("served")),
        config=yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, width=100),
    )


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


def _data_uri(svg: bytes) -> str:
    # An image, not markup in the page: what an SVG says can then never run, and ids of two figures never meet.
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"
