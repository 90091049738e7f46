"""The CAP paper's tables, the published figures with ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from judgebench.report.figures.style import shorten
from judgebench.report.formats import decimals, one, percent, points, signed_two, span, two
from judgebench.report.paper import cap_cells as cap
from judgebench.report.paper.cap_cells import ATTACKS, CAP, JUDGE_NAMES, PAPER_DATA, PLACE, CapCells, PaperData
from judgebench.report.paper.tables import Measure, PaperTable, grouped, per_cent, published
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE

_OURS = "Ours (not in the paper): "
_BY_DEFENSE = {"data": "Data", "judge": "Judge", "defense_label": "Defense"}


def build_cap(runs: Iterable[Results]) -> list[PaperTable]:
    """Tables 2 and 3 (score changes by attack and defense); as far as a run has what they need, 1 (random against
    standard references), 4 and 8 (Spearman where nobody attacks), 5 and 9 (seconds), 6 and 10 (ablation), 7 and 11
    (adaptive attack), 12 and 13 (strengths); then tables of the same for what the paper does not have: another data
    set, dimension or range.
    """
    cells = cap.cap_cells(runs)
    tables = [*change_tables(cells.attacked), *motivation_tables(cells.attacked), *spearman_tables(cells.clean)]
    return [*tables, *seconds_tables(cells.costs), *strength_tables(cells)]


def _table(
    name: str,
    caption: str,
    rows: pd.DataFrame,
    labels: Mapping[str, str],
    measures: Sequence[Measure],
    notes: Sequence[str],
    keys: Mapping[str, str] | None = None,
) -> PaperTable:
    """A table of the paper (`cap_table_<number>`) or of ours.

    Args:
        labels: columns of the rows that name a line -> their heads.
        keys: columns of the CSV that name a line -> columns of the rows; None takes those of the labels.
    """
    csv = {"table": "table"} | dict(keys or {head.lower(): column for column, head in labels.items()})
    csv |= {f"{measure.key}{end}": f"{measure.key}{end}" for measure in measures if measure.ours
            for end in ("", "_low", "_high")}  # fmt: skip
    csv |= {"lowered": "lowered"} if "lowered" in rows else {}
    csv |= {f"{measure.key}_published": f"{measure.key}_published" for measure in measures if measure.paper}
    rows = rows.reindex(columns=list(dict.fromkeys([*rows, *list(csv.values())[1:]])))
    parts = list(labels)[: 2 if "data" in labels else 1]
    title = f"CAP, Table {name.removeprefix('cap_table_')}" if name.startswith("cap_table_") else "Ours"
    once = list(labels)[:-1] if "data" in labels else parts
    return PaperTable(name, title, caption, rows, labels, measures, csv, notes, parts, once)


def _bounded(rows: pd.DataFrame, measures: Sequence[Measure], how: str = "") -> list[str]:
    bounded = any(name in rows and rows[name].notna().any() for name in (f"{measure.key}_low" for measure in measures))
    return [f"In brackets: 95 % interval{how}."] if bounded else []


def _own_places(rows: pd.DataFrame) -> list[tuple[tuple[str, ...], pd.DataFrame]]:
    """The places that the paper does not have, with their rows."""
    return [(place, part) for place, part in grouped(rows[~rows["paper"].astype(bool)], PLACE)]


# --- score changes ----------------------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """A sort of table: its attacks, the defenses that the paper's judges have printed lines of, and the cells without
    which there is no such table."""

    attacks: tuple[str, ...]
    caption: str
    number: Callable[[PaperData], int]
    defenses: tuple[str, ...] = ()
    needs: Callable[[pd.DataFrame], pd.Series] | None = None


_KINDS = (
    _Kind(
        ("advsuffix", "dsi", "bed"),
        "Score change under attack on {}: delta = |mean attacked - mean clean|, and its rate.",
        lambda data: data.changes,
    ),
    _Kind(
        ("advsuffix", "dsi", "bed"),
        "Ablation on {}: score change under attack with references that the tutor is asked for (W-CAP) and with those "
        "that it is steered to (CAP).",
        lambda data: data.ablation,
        (NO_DEFENSE, cap.W_CAP, CAP),
        lambda rows: rows["defense"] != NO_DEFENSE,
    ),
    _Kind(
        (cap.ADAPTIVE, "dsi", "bed"),
        "Adaptive attack on {}: score change under CAP when a text asks to ignore all references, beside DSI and BED.",
        lambda data: data.adaptive,
        (CAP,),
        lambda rows: rows["attack"] == cap.ADAPTIVE,
    ),
)
_CHANGES = (
    Measure("delta", "delta", two),
    Measure("rate_of_means", "rate of means", percent, points, paper=False),
    Measure("mean_of_rates", "mean of rates", percent, points, paper=False),
    Measure("rate_percent", "rate", per_cent, ours=False),
)
_CHANGE_LABELS = {"judge": "Judge", "attack_label": "Attack", "defense_label": "Defense"}
_CHANGE_KEYS = {"dataset": "data", "judge": "judge", "attack": "attack_label", "defense": "column"}
_RATES = (
    "Two readings of the rate: rate of means, delta over the mean clean score; mean of rates, the mean of the texts' "
    "own changes over their clean scores. The paper does not say which is its own."
)


def change_tables(attacked: pd.DataFrame) -> list[PaperTable]:
    """The paper's tables 2 and 3; 6 and 10, 7 and 11 where a run has W-CAP or CAP, and CAP under the adaptive attack;
    then a table for each other data set, dimension or range.

    AdvSuffix is the learned phrase of four words (`adv_suffix_4`). Judges of the paper stand as printed where no run
    has them, other judges of the runs behind them; of the defenses, none and those of the runs, and where these have
    references, the paper's whosever they are.
    """
    tables = []
    for kind in _KINDS:
        for data in PAPER_DATA.values():
            rows = attacked[attacked["paper"].eq(True) & (attacked["dataset"] == data.dataset)]
            rows = rows.drop_duplicates(["judge_key", "column", "attack"])
            rows = rows[rows["defense"].isin(kind.defenses)] if kind.defenses else rows
            if kind.needs is None or kind.needs(rows).any():
                tables.append(_printed_changes(data, kind, rows[rows["attack"].isin(kind.attacks)]))
    for place, rows in _own_places(attacked):
        caption = (
            f"{_OURS}score change under attack on {cap.place_text(place)}: |mean attacked - mean clean|, and its rate."
        )
        notes = [*_change_notes(rows), *cap.compared_with(place[0])]
        joined = cap.beside(None, rows, list(ATTACKS))
        tables.append(_change_table(cap.own_name(place, attacked), caption, joined, place[0], notes))
    return tables


def _printed_changes(data: PaperData, kind: _Kind, rows: pd.DataFrame) -> PaperTable:
    number = kind.number(data)
    printed = cap.printed_cells("cap_score_change.csv", number, ("delta", "rate_percent"))
    printed = printed[printed["defense"].isin(kind.defenses or {NO_DEFENSE, *rows["defense"]})]
    notes = _change_notes(rows) if len(rows) else ["No attacked run on this data was given: the paper's figures alone."]
    joined = cap.beside(printed, rows, kind.attacks)
    return _change_table(f"cap_table_{number}", kind.caption.format(data.title), joined, data.dataset, notes)


def _change_notes(rows: pd.DataFrame) -> list[str]:
    lowered = ["↓ the attack lowers the mean score."] if (rows["change"] < 0).any() else []
    return [*cap.attacked_notes(rows), _RATES, *lowered]


def _change_table(name: str, caption: str, rows: pd.DataFrame, dataset: str, notes: Sequence[str]) -> PaperTable:
    fell = [None if not ours else change < 0 for ours, change in zip(rows["ours"], rows["change"], strict=True)]
    lowered = pd.Series([None if sank is None else str(sank).lower() for sank in fell], rows.index, dtype=object)
    rows = rows.assign(data=dataset, attack_label=rows["attack"].map(ATTACKS), lowered=lowered)
    rows = rows.assign(delta_signs=["↓" if sank else "" for sank in fell])
    notes = [*_bounded(rows, _CHANGES, ", clean and attacked scores of a text resampled together"), *notes]
    return _table(name, caption, rows, _CHANGE_LABELS, _CHANGES, notes, _CHANGE_KEYS)


# --- references of random and of standard quality ---------------------------------------------------------------------

_SCORES = (
    Measure("score", "mean score", two),
    Measure("change", "change", signed_two),
    Measure("clean", "clean, same prompt", two, paper=False),
)
_SCORE_LABELS = {"data": "Data", "judge": "Judge", "attack_label": "Attack", "condition": "Condition"}
_SCORES_CAPTION = "Mean scores of texts under attack, with references of random and of standard quality in the prompt."
_SCORES_NOTE = (
    "Change: against the original, the mean of the clean texts without defense. Clean, same prompt: what the same "
    "prompt with the same references makes of the clean texts, which the paper does not print: only against it is a "
    "change the attack's alone."
)
_UNNAMED = (
    "The paper names neither attack nor tutor of its table 1: the changes are those of AdvSuffix in its tables 2 and 3."
)
_INFERRED = (
    "Unreadable in the scan of the paper and inferred from its other figures: summeval original (3.42), summeval "
    "attack (4.59)."
)
_REFERENCES = {cap.RANDOM: "random_reference", CAP: "standard_reference"}
"""Defense -> the condition of table 1."""


def motivation_tables(attacked: pd.DataFrame) -> list[PaperTable]:
    """Table 1, of runs with random references or with CAP; then a table for each other data set, dimension or range.

    A line has the attack of ours; the paper's figures stand beside AdvSuffix.
    """
    rows = attacked[attacked["defense"].isin([NO_DEFENSE, *_REFERENCES])]
    parts = rows.groupby([*PLACE, "judge_key", "attack"])["defense"]
    rows = rows[parts.transform(lambda names: NO_DEFENSE in set(names)).astype(bool)] if len(rows) else rows
    rows = rows[rows.groupby(PLACE)["defense"].transform("nunique") > 1]
    tables, papers = [], rows[rows["paper"].eq(True)]
    if len(papers):
        printed = published("cap_motivation.csv").assign(attack="advsuffix")
        names = {"dataset": "data", "condition": "key", "score": "score_published", "change": "change_published"}
        columns = ["data", "judge_key", "attack", "key", "score_published", "change_published"]
        printed = printed.rename(columns=names)[columns]
        ours = _conditions(papers, JUDGE_NAMES).merge(printed, how="left", on=["data", "judge_key", "attack", "key"])
        shown = set(zip(papers["dataset"], papers["judge_key"], papers["attack"], strict=True))
        cells = zip(printed["data"], printed["judge_key"], printed["attack"], strict=True)
        rest = printed[[cell not in shown for cell in cells]].assign(ours=False)
        rest = rest.assign(judge=rest["judge_key"].map(JUDGE_NAMES), condition=rest["key"].str.replace("_", " "))
        joined = pd.concat([ours, rest], ignore_index=True)
        joined = joined.assign(attack_label=joined["attack"].map(ATTACKS), printed=joined["score_published"].notna())
        notes = [_SCORES_NOTE, _UNNAMED, _INFERRED]
        notes += list(dict.fromkeys(note for _, part in grouped(papers, PLACE) for note in cap.attacked_notes(part)))
        notes = _bounded(joined, _SCORES) + notes
        tables.append(_table("cap_table_1", _SCORES_CAPTION, joined, _SCORE_LABELS, _SCORES, notes))
    for place, part in _own_places(rows):
        name, own = f"{cap.own_name(place, attacked)}_references", _conditions(part, {}).assign(printed=False)
        own = own.assign(attack_label=own["attack"].map(ATTACKS))
        notes = [*_bounded(own, _SCORES), _SCORES_NOTE, *cap.attacked_notes(part), *cap.compared_with(place[0])]
        tables.append(_table(name, f"{_OURS}{_SCORES_CAPTION}", own, _SCORE_LABELS, _SCORES, notes))
    return tables


def _conditions(rows: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """A row a judge, attack and condition: the clean texts, the attacked ones, and these with references."""
    ends, lines = ("", "_low", "_high"), []
    for (dataset, *_, judge, attack), part in grouped(rows, [*PLACE, "judge_key", "attack"]):
        base = part[part["defense"] == NO_DEFENSE].iloc[0]
        cell = {"data": dataset, "judge_key": judge, "judge": names.get(judge, base["label"]), "attack": attack}
        scores = [
            {f"score{end}": base.get(f"{name}_mean_score{end}") for end in ends} for name in ("clean", "attacked")
        ]
        change = {f"change{end}": base.get(f"change{end}") for end in ends}
        lines += [{**cell, "key": "original", **scores[0]}, {**cell, "key": "attack", **scores[1], **change}]
        for defense, condition in _REFERENCES.items():
            for _, row in part[part["defense"] == defense].iterrows():
                score = {f"score{end}": row.get(f"attacked_mean_score{end}") for end in ends}
                clean = {f"clean{end}": row.get(f"clean_mean_score{end}") for end in ends}
                gain = {"change": score["score"] - base["clean_mean_score"], "tutor": row["tutor"]}
                lines.append({**cell, "key": condition, **score, **gain, **clean})
    conditions = pd.DataFrame(lines).assign(ours=True)
    by = conditions["tutor"].map(lambda tutor: f" by {tutor}" if isinstance(tutor, str) else "")
    return conditions.assign(condition=conditions["key"].str.replace("_", " ") + by)


# --- Spearman where nobody attacks, and what a defense changes of it --------------------------------------------------

_SPEARMAN = [Measure("spearman_x100", "Spearman x 100", one)]
_SPEARMAN_CHANGE = [
    Measure("change_x100", "change x 100", decimals(1, signed=True)),
    Measure("rate_percent", "rate", per_cent),
]
_CHANGE_NOTE = "Change against no defense, and as a share of it; without an interval."


def spearman_tables(clean: pd.DataFrame) -> list[PaperTable]:
    """Tables 4 and 8, of runs with a defense: Spearman with the humans where nobody attacks, and its change against
    none; then a table of both for each other data set, dimension or range. The paper names no data set for these."""
    defended = clean.groupby(PLACE)["defense"].transform(lambda names: (names != NO_DEFENSE).any())
    rows = _with_changes(clean[defended.astype(bool)])
    papers, tables = rows[rows["paper"].eq(True)], []
    for number, measures, caption, notes in (
        (4, _SPEARMAN, "Spearman correlation (x 100) with the humans, of clean texts under each defense.", []),
        (8, _SPEARMAN_CHANGE, "What each defense changes of that correlation (x 100).",
         [_CHANGE_NOTE]),
    ):  # fmt: skip
        keys = [measure.key for measure in measures]
        printed = cap.printed_cells("cap_spearman.csv", number, keys)
        printed = printed[printed[f"{keys[0]}_published"].notna()].drop(columns=[f"{key}_unread" for key in keys])
        parts = [
            cap.beside(printed, part[part[keys[0]].notna()]).assign(data=place[0])
            for place, part in grouped(papers, PLACE)
        ]
        if parts:
            joined = pd.concat(parts, ignore_index=True)
            about = ["The paper names no data set for its tables 4 and 8.", *notes, *_clean_notes(papers)]
            about = _bounded(joined, measures) + about
            tables.append(_table(f"cap_table_{number}", caption, joined, _BY_DEFENSE, measures, about))
    for place, part in _own_places(rows):
        measures = [*_SPEARMAN, *_SPEARMAN_CHANGE]
        caption = f"{_OURS}Spearman correlation (x 100) with the humans on {cap.place_text(place)}, clean texts."
        notes = [*_bounded(part, measures), _CHANGE_NOTE, *_clean_notes(part)]
        joined = cap.beside(None, part).assign(data=place[0])
        tables.append(_table(f"{cap.own_name(place, clean)}_spearman", caption, joined, _BY_DEFENSE, measures, notes))
    return tables


def _with_changes(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with Spearman x 100, and its change against no defense and as per cent of it."""
    for end in ("", "_low", "_high"):
        rows = rows.assign(**{f"spearman_x100{end}": 100 * rows[f"spearman{end}"].astype(float)})
    none = rows.loc[rows["defense"] == NO_DEFENSE, [*PLACE, "judge_key", "spearman_x100"]]
    rows = rows.merge(none.rename(columns={"spearman_x100": "none"}), how="left", on=[*PLACE, "judge_key"])
    base = rows["none"].where(rows["defense"] != NO_DEFENSE)
    change = rows["spearman_x100"] - base
    return rows.assign(change_x100=change, rate_percent=100 * change.abs() / base.where(base > 0))


def _clean_notes(rows: pd.DataFrame) -> list[str]:
    notes = []
    for (dataset, *_, split, word), part in grouped(rows, [*PLACE, "split", "word"]):
        notes.append(f"Ours: {dataset}, {split} split, {span(part['n'])} texts of {span(part['groups'])} {word}.")
    return notes + cap.scored_notes(rows)


# --- seconds ----------------------------------------------------------------------------------------------------------

_SECONDS = (
    Measure("seconds_x10", "seconds x 10", one),
    Measure("alone_x10", "alone x 10", one, paper=False),
    Measure("reading_x10", "reading x 10", one, paper=False),
)
_SECONDS_NOTES = (
    "Seconds of ours: reading the prompt, with its share of what the defense made for the context of several texts; "
    "alone: as if no other text shared the context; reading: the prompt alone. What a defense "
    "needs once, whatever is judged, is not among them.",
    "Seconds depend on device, batch and engine: the paper's hardware is not known, and only ratios compare.",
)


def seconds_tables(costs: pd.DataFrame) -> list[PaperTable]:
    """Tables 5 and 9, of runs with a defense: seconds (x 10) a sample; then a table for each other data set, dimension
    or range."""
    tables = []
    for place, part in grouped(costs, PLACE):
        seconds, reading, context = (
            part[f"{name}seconds"].astype(float).fillna(0.0) for name in ("", "reading_", "context_")
        )
        alone = reading + context.where(context != 0, seconds - reading)
        rows = part.assign(seconds_x10=10 * seconds, alone_x10=10 * alone, reading_x10=10 * reading)
        notes = [
            *_SECONDS_NOTES,
            f"Ours: means over {span(part['n'])} readings, attacked and clean, under each defense.",
            *cap.tutor_notes(part),
            *(["Ours are means over all dimensions and ranges of the run."] if part["mixed"].any() else []),
        ]
        data = PAPER_DATA[place[0]] if part["paper"].iloc[0] else None
        where = data.title if data else cap.place_text(place)
        caption, printed = f"Seconds (x 10) that a sample takes under each defense, {where}.", None
        name = f"{cap.own_name(place, costs)}_seconds"
        if data is None:
            caption, notes = f"{_OURS}{caption}", [*notes, *cap.compared_with(place[0])]
        else:
            name, printed = (
                f"cap_table_{data.seconds}",
                cap.printed_cells("cap_seconds.csv", data.seconds, ["seconds_x10"]),
            )
        joined = cap.beside(printed, rows).assign(data=place[0])
        tables.append(_table(name, caption, joined, _BY_DEFENSE, _SECONDS, notes))
    return tables


# --- strengths of steering --------------------------------------------------------------------------------------------

_STANDARDS = {"alpha_h": "to the high standard (alpha_h)", "alpha_l": "to the low standard (alpha_l)"}
_STRENGTH_LABELS = {"data": "Data", "judge": "Judge", "tutor": "Tutor"}
_STRENGTH_NOTE = (
    "A strength acts in the unit of a tutor's hidden states, whose lengths differ from model to model and layer to "
    "layer: what compares is the strength over their mean length at the steered layer."
)


def strength_tables(cells: CapCells) -> list[PaperTable]:
    """Tables 12 and 13, of runs with CAP; then a table of both for each other data set or dimension."""
    steered = cells.steered
    if not len(steered):
        return []
    shares = {f"{name}_share": steered[name] / steered["norm"].astype(float) for name in _STANDARDS}
    steered = steered.assign(data=steered["dataset"], judge=steered["label"], ours=True, **shares)
    papers, tables = steered[steered["paper"]], []
    for number, parameter in ((12, "alpha_h"), (13, "alpha_l")) if len(papers) else ():
        caption = f"Strength of steering {_STANDARDS[parameter]}."
        joined = _printed_strengths(number, parameter, papers)
        tables.append(_strength_table(f"cap_table_{number}", caption, joined, [parameter], papers))
    for place, part in _own_places(steered):
        caption = f"{_OURS}strengths of steering on {place[0]}, {place[1]}."
        rows = part.assign(tutor=part["tutor"].map(lambda title: shorten(title, 30)), printed=False)
        name = f"{cap.own_name(place, steered)}_strengths"
        tables.append(_strength_table(name, caption, rows, list(_STANDARDS), part))
    return tables


def _strength_table(
    name: str, caption: str, rows: pd.DataFrame, parameters: Sequence[str], ours: pd.DataFrame
) -> PaperTable:
    measures = []
    for parameter in parameters:
        share = Measure(f"{parameter}_share", f"{parameter} / length", two, paper=False)
        measures += [Measure(parameter, parameter, two), share]
    steering = [f"{tutor} of ours: {how}." for tutor, how in zip(ours["tutor"], ours["how"], strict=True)]
    return _table(name, caption, rows, _STRENGTH_LABELS, measures, [_STRENGTH_NOTE, *steering])


def _printed_strengths(number: int, parameter: str, ours: pd.DataFrame) -> pd.DataFrame:
    """The printed strengths in print order, with ours; then ours that the paper does not have."""
    rows = published("cap_alpha.csv")
    rows = rows[rows["table"] == number]
    printed = pd.DataFrame(
        {
            "data": rows["dataset"],
            "judge_key": rows["judge_key"],
            "family": rows["tutor"].map({title: family for family, title in cap.TUTORS.items()}),
            "printed_judge": rows["judge"].map(cap.JUDGES),
            "printed_tutor": rows["tutor"].str.split("/").str[-1],
            f"{parameter}_published": rows["value"].astype(float),
            "printed": True,
        }
    )
    keys = ["data", "judge_key", "family"]
    ours = ours.assign(family=ours["tutor"].map(cap.tutor_family)).drop_duplicates(keys)
    columns = [*keys, "judge", "tutor", "ours", parameter, f"{parameter}_share"]
    joined = printed.merge(ours[columns], how="left", on=keys)
    known = ours[keys].merge(printed[keys], on=keys)
    rest = ours[~ours.set_index(keys).index.isin(known.set_index(keys).index)]
    joined = pd.concat([joined, rest[columns]], ignore_index=True)
    short = joined["tutor"].map(lambda title: shorten(title, 30) if isinstance(title, str) else "")
    return joined.assign(
        judge=joined["printed_judge"].fillna(joined["judge"]),
        tutor=joined["printed_tutor"].fillna(short),
        ours=joined["ours"].notna(),
        printed=joined["printed"].notna(),
    )
