"""The CAP paper's tables, the published figures with ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from judgebench.judges.local.loading import ModelSource
from judgebench.report.figures.style import shorten
from judgebench.report.paper.tables import (
    Declared,
    Measure,
    PaperTable,
    counted,
    fill_table,
    grouped,
    judges_of,
    model_key,
    per_cent,
    published,
    sizes,
)
from judgebench.results.results import NO_DEFENSE, Results, number, range_of
from judgebench.stats.clusters import ENDS
from judgebench.studies.scores import CLEAN, first_record
from judgebench.types import Record, Records, Row
from judgebench.words.formats import decimals, one, percent, points, signed_two, span, two

ATTACKS = {"adaptive": "Adaptive", "advsuffix": "AdvSuffix", "dsi": "DSI", "bed": "BED"}
"""The paper's attacks, and how it prints them, in the order of its tables. The adaptive one asks the
judge to ignore references: CAP alone."""

SUFFIX_LENGTH = 4
"""Words of the learned phrase in the paper's tables."""

JUDGES = {
    "google/flan-t5-xl": "FlanT5-XL",
    "meta-llama/Llama-3.1-8B-Instruct": "Llama-3.1-8B",
    "gpt-3.5-turbo": "ChatGPT-3.5",
    "gemini-2.0": "Gemini-2.0",
    "deepseek-v3": "DeepSeek-V3",
}
"""Id in `published/` -> the printed name."""

TUTORS = {"llama": "meta-llama/Llama-3.1-8B-Instruct", "mistral": "mistralai/Mistral-7B-Instruct"}
"""The paper's tutors: the name of a column -> id in `published/`."""

CAP = "cap"
W_CAP = "w_cap"
RANDOM = "random_reference"

PLACE = ["dataset", "dimension", "range"]
"""Keys of a place."""

COLUMN = ["column", "defense", "defense_label", "rank"]
"""Keys of a column of the paper: a defense, and where it has references their tutor; see
`column_of`."""

_NAMES = {model_key(judge): name for judge, name in JUDGES.items()}


class _Paper(NamedTuple):
    """A data set of the paper: its title, the dimension of its rubric with all criteria in one
    prompt, and the numbers of its tables of score changes and of seconds."""

    title: str
    dimension: str
    changes: Sequence[int]
    seconds: int


_PAPERS = {
    "summeval": _Paper("SummEval", "joint", (2, 10, 11), 9),
    "topicalchat": _Paper("TopicalChat", "overall", (3, 6, 7), 5),
}


def build_cap(runs: Iterable[Results]) -> list[PaperTable]:
    """Tables 2 and 3 (score changes by attack and defense); as far as a run has what they need, 1
    (random against standard references), 4 and 8 (Spearman of clean texts), 5 and 9 (seconds), 6
    and 10 (ablation), 7 and 11 (adaptive attack), 12 and 13 (strengths). Runs on other data,
    dimensions or ranges have no line.
    """
    cells = cap_cells(runs)
    declared = (
        (cells.attacked, [*_change_tables(), _reference_table()]),
        (cells.clean, _spearman_tables()),
        (cells.costs, _seconds_tables()),
        (cells.steered, _strength_tables()),
    )
    tables = [fill_table(table, rows) for rows, several in declared for table in several]
    return [table for table in tables if table is not None]


# --- the cells of runs and of the print ---------------------------------------------------------

_BY_TUTOR = {RANDOM: "random reference", W_CAP: "W-CAP", CAP: "CAP"}
_LABELS = {NO_DEFENSE: "w/o defense", "cot": "CoT", "perplexity": "Perplexity"} | _BY_TUTOR
# "": defenses that the paper does not have
_ORDER = [NO_DEFENSE, "cot", "perplexity", "", RANDOM, W_CAP, CAP]
_FAMILIES = {"llama": re.compile(r"(meta-)?llama"), "mistral": re.compile("mistral")}
_SUFFIX = re.compile(rf"adv_suffix_(?:.+_)?{SUFFIX_LENGTH}")
_RULES = ("expectation", "argmax")  # the paper's open judges score by expectation
_RECORD = (
    "attack",
    "phrase",
    "tutor",
    "decoding",
    "split",
    "word",
    "n",
    "paired",
    "groups",
    "change",
    "delta",
    "clean_mean_score",
    "spearman",
    "spearman_low",
    "spearman_high",
)
_WORDS = "greedy"  # how an answer in words is written, under any decodings of the run


def tutor_family(tutor: str) -> str:
    """`llama` or `mistral` where the paper has such a tutor, else the title itself."""
    name = model_key(tutor)
    return next((family for family, pattern in _FAMILIES.items() if pattern.match(name)), tutor)


def column_of(defense: str, tutor: str | None = None) -> Record:
    """`COLUMN` of a defense: `column` as in the CSV files, such as `cap_llama`; `rank` in the
    paper's order.

    Example:
        >>> column_of("cap", "Llama-3.1-8B-Instruct")["defense_label"]
        'CAP_L'
        >>> column_of("w_cap", "SmolLM2-135M-Instruct")["defense_label"]
        'W-CAP (SmolLM2-135M-Instruct)'
    """
    column = defense
    label = _LABELS.get(defense, defense)
    family = None
    if tutor is not None and defense in _BY_TUTOR:
        family = tutor_family(tutor)
        column = f"{defense}_{family}"
        if family in _FAMILIES and defense != RANDOM:
            label += f"_{family[0].upper()}"
        else:
            label += f" ({shorten(family, 30)})"
    rank = float(_ORDER.index(defense if defense in _ORDER else ""))
    if defense in _BY_TUTOR and family not in _FAMILIES:
        rank += 0.5
    return {"column": column, "defense": defense, "defense_label": label, "rank": rank}


def printed_cells(name: str, table: int, keys: Sequence[str]) -> pd.DataFrame:
    """The rows of one of the paper's tables in a file of `published/`: `COLUMN`, `<key>_published`,
    and `<key>_unread` where the print cannot be read."""
    rows = published(name)
    rows = rows[rows["table"] == table].reset_index(drop=True)
    columns = []
    for defense in rows["defense"]:
        head, _, tail = defense.rpartition("_")
        columns.append(column_of(head, tail) if tail in TUTORS else column_of(defense))
    keyed = [column for column in ("dataset", "attack", "judge_key") if column in rows]
    cells = pd.concat([rows[keyed], pd.DataFrame(columns)], axis=1)
    for key in keys:
        cells[f"{key}_published"] = rows[key].astype(float)
    for key in keys:
        cells[f"{key}_unread"] = rows[key].isna()
    return cells.assign(printed=True)


@dataclass(frozen=True)
class CapCells:
    """The cells of some runs. Rows have `PLACE`, `COLUMN`, `judge_key`, `label` (of the judge),
    `paper` (whether the place is one of the paper's: judged by all criteria in one prompt, from 1
    to 5), `tutor` (its title) and `word` (for groups); where two runs have the same cell, the
    first's.

    Attributes:
        attacked: records of metrics.json that have a clean base under the same defense; `attack` is
            the paper's name, `phrase` the run's.
        clean: records of clean texts.
        costs: records of defense/costs.json at each place of their run; `mixed`: whether it has
            several.
        steered: strengths of CAP: `alpha_h` and `alpha_l` as they act (equations 4, 5), `norm`,
            mean length of the states that they act on, and `how` they were selected.
    """

    attacked: pd.DataFrame
    clean: pd.DataFrame
    costs: pd.DataFrame
    steered: pd.DataFrame


def cap_cells(runs: Iterable[Results]) -> CapCells:
    """The cells of some runs: of each judge and defense the scores by expectation count, as in the
    paper, else its first by argmax; of the records those of the shown split and level."""
    records = []
    costs = []
    steered = []
    for run in runs:
        settings = run.config.get("tutor") or {}
        path = settings.get("path")
        tutor = None if path is None else ModelSource(path, settings.get("gguf_file")).title
        # 1. scores: of each judge and defense those of one decoding
        for record in counted(run, run.shown, _RULES):
            defense = record["defense"]
            attack = record["attack"]
            kind = "advsuffix" if _SUFFIX.fullmatch(attack) else attack
            # a null context is never attacked: it says the same of everything
            silent = record["judge"] == "assistant" and record.get("constant")
            if kind not in (CLEAN, *ATTACKS) or silent:
                continue
            by = tutor if defense in _BY_TUTOR else None
            about = {"attack": kind, "phrase": attack, "tutor": by, **column_of(defense, tutor)}
            # the paper gives failed answers the lowest score
            lowest = record.get("lowest") or {}
            records.append({**record, **lowest, **_place_of(record), **about})
        # 2. costs of defenses and strengths of steering, by place
        places = {tuple(place.values()): place for place in map(_place_of, run.shown)}
        judge, label = judges_of(run)["main"]
        # else they are no cost of a defense
        defended = any(cost["defense"] != NO_DEFENSE for cost in run.costs)
        for place in places.values():
            about = place | {"judge_key": judge, "label": label}
            for cost in run.costs if defended else ():
                column = column_of(cost["defense"], tutor)
                costs.append({**cost, **about, **column, "tutor": tutor, "mixed": len(places) > 1})
            if strengths := _steered(run, place["dimension"], tutor):
                steered.append(about | strengths)
    return _cells(records, costs, steered)


def _cells(records: Records, costs: Records, steered: Records) -> CapCells:
    """Frames, which have their columns in any case, of the first of equal cells."""
    rows = _frame(records, [*COLUMN, *_RECORD])
    cell = [*PLACE, "judge_key"]
    attacked = rows[(rows["attack"] != CLEAN) & rows["delta"].notna()]
    clean = rows[(rows["attack"] == CLEAN) & rows["spearman"].notna()]
    return CapCells(
        attacked=attacked.drop_duplicates([*cell, "column", "attack"]),
        clean=clean.drop_duplicates([*cell, "column"]),
        costs=_frame(costs, COLUMN).drop_duplicates([*cell, "column"]),
        steered=_frame(steered, ["tutor"]).drop_duplicates([*cell, "tutor"]),
    )


def _place_of(record: Row) -> Record:
    """The place of a record, and whether the paper prints it."""
    score_range = range_of(record)
    dataset = record["dataset"]
    dimension = record["dimension"]
    printed = dataset in _PAPERS and _PAPERS[dataset].dimension == dimension
    return {
        "dataset": dataset,
        "dimension": dimension,
        "range": str(score_range),
        "paper": printed and (score_range.minimum, score_range.maximum) == (1.0, 5.0),
    }


def _frame(rows: Records, columns: Sequence[str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    names = dict.fromkeys([*frame, *PLACE, "paper", "judge_key", "label", *columns])
    return frame.reindex(columns=list(names))


def _steered(run: Results, dimension: str, tutor: str | None) -> Record | None:
    """The strengths of a run's CAP references in one dimension; None without any."""
    rows = run.references
    rows = rows[(rows["defense"] == CAP) & (rows["dimension"] == dimension)]
    alphas = rows[["alpha_high", "alpha_low"]]
    if not len(rows) or alphas.isna().any(axis=None):
        return None
    up, down = map(float, alphas.iloc[0])
    here = {"dimension": dimension}
    strengths = [row for row in run.strengths if here.items() <= row.items()]
    chosen = {(row["side"], row["alpha"]) for row in strengths if row["chosen"]}
    how = "as configured"
    if chosen >= {("high", up), ("low", down)}:
        how = "the strengths tried whose texts scored nearest to the thresholds"
    norm = None
    if standard := first_record(run.standards, here):
        layer = int(standard["layer"])
        norm = number(standard["norms"][layer - 1])
        how += f"; steered at layer {layer} of {len(standard['norms'])}"
        tutor = tutor or standard["tutor"]
    return {"tutor": tutor or "tutor", "how": how, "alpha_h": up, "alpha_l": down, "norm": norm}


# --- tables in general --------------------------------------------------------------------------


def _table(
    number_: int,
    caption: str,
    labels: Mapping[str, str],
    measures: Sequence[Measure],
    *,
    dataset: str = "",
    select: Callable[[pd.DataFrame], pd.DataFrame] = lambda rows: rows,
    csv: Mapping[str, str] | None = None,
    signs: Sequence[str] = (),
    **declared: Any,
) -> Declared:
    """A table of the paper's places, of one data set or of all.

    Args:
        csv: columns of the CSV -> those of the rows that name a line; None: as the labels.
        signs: further columns of ours in the CSV.
    """

    def of_paper(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[rows["paper"].eq(True)]
        return select(rows[rows["dataset"] == dataset] if dataset else rows)

    columns = dict(csv or {head.lower(): column for column, head in labels.items()})
    ours = [f"{measure.key}{end}" for measure in measures for end in ENDS if measure.ours]
    printed = [f"{measure.key}_published" for measure in measures if measure.paper]
    columns |= {name: name for name in (*ours, *signs, *printed)}
    several = "dataset" in labels
    return Declared(
        f"cap_table_{number_}",
        f"CAP, Table {number_}",
        caption,
        labels,
        measures,
        csv={"table": "table"} | columns,
        sections=list(labels)[: 2 if several else 1],
        once=list(labels)[: -1 if several else 1],
        select=of_paper,
        **declared,
    )


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the names of judges and attacks."""
    attacks = rows.reindex(columns=["attack"])["attack"]
    judges = rows["judge_key"].map(_NAMES).fillna(rows["label"])
    return rows.assign(judge=judges, attack_label=attacks.map(ATTACKS))


def _among(rows: pd.DataFrame) -> pd.DataFrame:
    """Named rows, ours and the print's among each other by data set, judge, attack and defense."""
    rows = _named(rows)
    judges = [*_NAMES, *rows["judge_key"]]
    order = pd.DataFrame(
        {
            "dataset": rows["dataset"].map(_ranks(rows["dataset"])),
            "judge": rows["judge_key"].map(_ranks(judges)),
            "attack": rows["attack_label"].map(_ranks(ATTACKS.values())),
            "defense": rows["rank"],
        }
    )
    return rows.loc[order.sort_values([*order.columns]).index].reset_index(drop=True)


def _ranks(values: Iterable[str]) -> dict[str, int]:
    return {value: rank for rank, value in enumerate(dict.fromkeys(values))}


def _attacked_notes(rows: pd.DataFrame) -> list[str]:
    notes = sizes(rows, "paired", ", scored clean and attacked under the same defense")
    notes += _scored_notes(rows)
    if phrases := dict.fromkeys(rows.loc[rows["attack"] == "advsuffix", "phrase"]):
        notes.append(
            f"AdvSuffix of ours: {', '.join(phrases)}, the learned phrase of {SUFFIX_LENGTH} words."
        )
    return notes


def _scored_notes(rows: pd.DataFrame) -> list[str]:
    usual: dict[str, str] = {}
    for judge, how in zip(rows["label"], rows["decoding"], strict=True):
        if usual.get(judge, _WORDS) == _WORDS:
            usual[judge] = how
    judges = ", ".join(f"{judge} by {how}" for judge, how in usual.items())
    notes = [f"Scores of ours: {judges}."]
    in_words = rows[(rows["decoding"] == _WORDS) & (rows["label"].map(usual) != _WORDS)]
    if len(in_words):
        defenses = ", ".join(in_words["defense_label"].unique())
        notes.append(
            f"Under {defenses} the judge answers in words: the number that it ends with counts, "
            "and no expectation."
        )
    return notes + _tutor_notes(rows)


def _tutor_notes(rows: pd.DataFrame) -> list[str]:
    written = rows[rows["tutor"].notna() & rows["defense"].isin(_BY_TUTOR)]
    notes = []
    for (column, defense, label, _), part in grouped(written, COLUMN):
        titles = list(part["tutor"].unique())
        if column != f"{defense}_{titles[0]}":
            notes.append(f"{label} of ours: references by {', '.join(titles)}.")
    return notes


# --- score changes ------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """A sort of table: its attacks, the defenses that the paper's judges have printed lines of, and
    the cells without which it is left out."""

    attacks: tuple[str, ...]
    caption: str
    defenses: tuple[str, ...] = ()
    needs: Callable[[pd.DataFrame], pd.Series] | None = None


_KINDS = (
    _Kind(
        ("advsuffix", "dsi", "bed"),
        "Score change under attack on {}: delta = |mean attacked - mean clean|, and its rate.",
    ),
    _Kind(
        ("advsuffix", "dsi", "bed"),
        "Ablation on {}: score change under attack with references that the tutor is asked for "
        "(W-CAP) and with those that it is steered to (CAP).",
        (NO_DEFENSE, W_CAP, CAP),
        lambda rows: rows["defense"] != NO_DEFENSE,
    ),
    _Kind(
        ("adaptive", "dsi", "bed"),
        "Adaptive attack on {}: score change under CAP when a text asks to ignore all references, "
        "with DSI and BED.",
        (CAP,),
        lambda rows: rows["attack"] == "adaptive",
    ),
)
_CHANGES = (
    Measure("delta", "delta", two),
    Measure("rate_of_means", "rate of means", percent, points, paper=False),
    Measure("mean_of_rates", "mean of rates", percent, points, paper=False),
    Measure("rate_percent", "rate", per_cent, ours=False),
)
_CHANGES_CSV = {
    "dataset": "dataset",
    "judge": "judge",
    "attack": "attack_label",
    "defense": "column",  # as the published files name it
}
_RATES = (
    "Two readings of the rate: rate of means, delta over the mean clean score; mean of rates, the "
    "mean of the texts' own changes over their clean scores. The paper does not say which is its "
    "own."
)


def _change_tables() -> list[Declared]:
    """The paper's tables 2 and 3; 6 and 10, 7 and 11 where a run has W-CAP or CAP, and CAP under
    the adaptive attack.

    AdvSuffix is the learned phrase of four words (`adv_suffix_4`). Judges of the paper stand as
    printed where no run has them, other judges of the runs behind them; of the defenses, none and
    those of the runs, and where these have references, the paper's whosever they are.
    """
    return [
        _table(
            paper.changes[place],
            kind.caption.format(paper.title),
            labels={"judge": "Judge", "attack_label": "Attack", "defense_label": "Defense"},
            measures=_CHANGES,
            printed=partial(_printed_changes, kind, paper.changes[place]),
            keys=["dataset", "judge_key", *COLUMN, "attack"],
            notes=_change_notes,
            dataset=dataset,
            select=partial(_of_kind, kind),
            lines=_lowered,
            finish=_among,
            csv=_CHANGES_CSV,
            signs=["lowered"],
            resampled=", clean and attacked scores of a text resampled together",
            alone=not kind.defenses,
        )
        for place, kind in enumerate(_KINDS)
        for dataset, paper in _PAPERS.items()
    ]


def _of_kind(kind: _Kind, rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.drop_duplicates(["judge_key", "column", "attack"])
    if kind.defenses:
        rows = rows[rows["defense"].isin(kind.defenses)]
    if kind.needs is not None and not kind.needs(rows).any():
        return rows.iloc[:0]
    return rows[rows["attack"].isin(kind.attacks)]


def _lowered(rows: pd.DataFrame) -> pd.DataFrame:
    fell = rows["change"].astype(float) < 0
    return rows.assign(
        lowered=fell.map({True: "true", False: "false"}),
        delta_signs=fell.map({True: "↓", False: ""}),
    )


def _printed_changes(kind: _Kind, number_: int, ours: pd.DataFrame) -> pd.DataFrame:
    printed = printed_cells("cap_score_change.csv", number_, ("delta", "rate_percent"))
    return printed[printed["defense"].isin(kind.defenses or {NO_DEFENSE, *ours["defense"]})]


def _change_notes(rows: pd.DataFrame) -> list[str]:
    if not len(rows):
        return ["No attacked run on this data was given: the paper's figures alone."]
    fell = (rows["change"] < 0).any()
    lowers = ["↓ the attack lowers the mean score."] if fell else []
    return [*_attacked_notes(rows), _RATES, *lowers]


# --- references of random and of standard quality -----------------------------------------------

_SCORES = (
    Measure("score", "mean score", two),
    Measure("change", "change", signed_two),
    Measure("clean", "clean, same prompt", two, paper=False),
)
_SCORES_CAPTION = (
    "Mean scores of texts under attack, with references of random and of standard quality in the "
    "prompt."
)
_SCORES_NOTE = (
    "Change: against the original, the mean of the clean texts without defense. Clean, same "
    "prompt: what the same prompt with the same references makes of the clean texts, which the "
    "paper does not print: only against it is a change the attack's alone."
)
_UNNAMED = (
    "The paper names neither attack nor tutor of its table 1: the changes are those of AdvSuffix "
    "in its tables 2 and 3."
)
_INFERRED = (
    "Unreadable in the scan of the paper and inferred from its other figures: summeval original "
    "(3.42), summeval attack (4.59)."
)
_REFERENCES = {RANDOM: "random_reference", CAP: "standard_reference"}
"""Defense -> the condition of table 1."""


def _with_base(rows: pd.DataFrame) -> pd.DataFrame:
    """The cells of random references and of CAP, with those without defense that they are held
    against."""
    cell = [*PLACE, "judge_key", "attack"]
    rows = rows[rows["defense"].isin([NO_DEFENSE, *_REFERENCES])]
    if not len(rows):
        return rows
    return _defended(_having(rows, cell, rows["defense"].eq(NO_DEFENSE)))


def _printed_references(ours: pd.DataFrame) -> pd.DataFrame:
    names = {"condition": "key", "score": "score_published", "change": "change_published"}
    printed = published("cap_motivation.csv").rename(columns=names)
    printed = printed[["dataset", "judge_key", *names.values()]]
    return printed.assign(attack="advsuffix", condition=printed["key"].str.replace("_", " "))


def _beside_ours(rows: pd.DataFrame) -> pd.DataFrame:
    """Named rows; of a judge and attack of ours no condition that ours does not have."""
    cells = rows.set_index(["dataset", "judge_key", "attack"]).index
    return _named(rows[rows["ours"] | ~cells.isin(cells[rows["ours"]])])


def _reference_notes(rows: pd.DataFrame) -> list[str]:
    notes = [note for _, part in grouped(rows, PLACE) for note in _attacked_notes(part)]
    return [_SCORES_NOTE, _UNNAMED, _INFERRED, *dict.fromkeys(notes)]


def _conditions(rows: pd.DataFrame) -> pd.DataFrame:
    """A row a judge, attack and condition: the clean texts, the attacked ones, and these with
    references."""
    # 1. each cell with the clean scores of the bare judge
    cells = rows.groupby([*PLACE, "judge_key", "attack"], sort=False)
    rows = rows.assign(cell=cells.ngroup())
    bare = rows[rows["defense"] == NO_DEFENSE]
    rows = rows.merge(bare[["cell", "clean_mean_score"]], on="cell", suffixes=("", "_bare"))
    # 2. a frame a condition
    attacked = "attacked_mean_score"
    frames = [
        _condition("original", bare, score="clean_mean_score"),
        _condition("attack", bare, score=attacked, change="change"),
    ]
    for defense, key in _REFERENCES.items():
        part = rows[rows["defense"] == defense]
        part = part.assign(moved=part[attacked] - part["clean_mean_score_bare"])
        columns = {"score": attacked, "clean": "clean_mean_score", "change": "moved"}
        frames.append(_condition(key, part, **columns))
    lines = pd.concat([frame for frame in frames if len(frame)])
    lines = lines.sort_values("cell", kind="stable", ignore_index=True)
    by = lines["tutor"].map(lambda tutor: f" by {tutor}" if isinstance(tutor, str) else "")
    return lines.assign(condition=lines["key"].str.replace("_", " ") + by)


def _condition(key: str, rows: pd.DataFrame, **columns: str) -> pd.DataFrame:
    """The lines of a condition, with some columns of rows under the names that the table has."""
    lines = rows[["cell", "dataset", "judge_key", "label", "attack", "tutor"]].assign(key=key)
    for name, column in columns.items():
        for end in ENDS:
            lines[f"{name}{end}"] = rows.get(f"{column}{end}")
    return lines


def _reference_table() -> Declared:
    """Table 1, of runs with random references or with CAP: a line has the attack of ours; the
    paper's figures stand with AdvSuffix."""
    return _table(
        1,
        _SCORES_CAPTION,
        labels={
            "dataset": "Data",
            "judge": "Judge",
            "attack_label": "Attack",
            "condition": "Condition",
        },
        measures=_SCORES,
        printed=_printed_references,
        keys=["dataset", "judge_key", "attack", "key"],
        notes=_reference_notes,
        select=_with_base,
        lines=_conditions,
        finish=_beside_ours,
        ours_first=True,
    )


# --- Spearman of clean texts, and what a defense changes of it ----------------------------------

_SPEARMAN = [Measure("spearman_x100", "Spearman x 100", one)]
_SPEARMAN_CHANGE = [
    Measure("change_x100", "change x 100", decimals(1, signed=True)),
    Measure("rate_percent", "rate", per_cent),
]
_CHANGE_NOTE = "Change against no defense, and as a share of it; without an interval."
_SPEARMAN_TABLES: dict[int, tuple[Sequence[Measure], str, Sequence[str]]] = {
    4: (
        _SPEARMAN,
        "Spearman correlation (x 100) with the humans, of clean texts under each defense.",
        (),
    ),
    8: (_SPEARMAN_CHANGE, "What each defense changes of that correlation (x 100).", [_CHANGE_NOTE]),
}
"""Number of a table -> its measures, its caption, and a note."""
_BY_DEFENSE = {"dataset": "Data", "judge": "Judge", "defense_label": "Defense"}


def _spearman_tables() -> list[Declared]:
    """Tables 4 and 8, of runs with a defense: Spearman with the humans, and its change against
    none. The paper names no data set for these."""
    return [
        _table(
            number_,
            caption,
            labels=_BY_DEFENSE,
            measures=measures,
            printed=partial(_printed_spearman, number_, [measure.key for measure in measures]),
            keys=["dataset", "judge_key", *COLUMN],
            notes=partial(_spearman_notes, about),
            select=_defended,
            lines=_spearman_lines,
            finish=_among,
        )
        for number_, (measures, caption, about) in _SPEARMAN_TABLES.items()
    ]


def _defended(rows: pd.DataFrame) -> pd.DataFrame:
    """The cells of places with a defense."""
    return _having(rows, PLACE, rows["defense"].ne(NO_DEFENSE))


def _having(rows: pd.DataFrame, keys: Sequence[str], which: pd.Series) -> pd.DataFrame:
    """The rows of the groups by some keys of which one row is one `which`."""
    groups = which.groupby([rows[key] for key in keys])
    return rows[groups.transform("any").astype(bool)]


def _spearman_lines(rows: pd.DataFrame) -> pd.DataFrame:
    """Spearman x 100, its change against no defense, and that as per cent of it."""
    place = [*PLACE, "judge_key"]
    rows = rows.copy()
    for end in ENDS:
        rows[f"spearman_x100{end}"] = 100 * rows[f"spearman{end}"].astype(float)
    none = rows.loc[rows["defense"] == NO_DEFENSE, [*place, "spearman_x100"]]
    rows = rows.merge(none.rename(columns={"spearman_x100": "none"}), how="left", on=place)
    base = rows["none"].where(rows["defense"] != NO_DEFENSE)
    change = rows["spearman_x100"] - base
    return rows.assign(change_x100=change, rate_percent=100 * change.abs() / base.where(base > 0))


def _printed_spearman(number_: int, keys: Sequence[str], ours: pd.DataFrame) -> pd.DataFrame:
    """The print, beside each data set of ours."""
    printed = printed_cells("cap_spearman.csv", number_, keys).drop(columns="dataset")
    printed = printed[printed[f"{keys[0]}_published"].notna()]
    return ours[["dataset"]].drop_duplicates().merge(printed, how="cross")


def _spearman_notes(about: Sequence[str], rows: pd.DataFrame) -> list[str]:
    unnamed = "The paper names no data set for its tables 4 and 8."
    return [unnamed, *about, *sizes(rows, "n"), *_scored_notes(rows)]


# --- seconds ------------------------------------------------------------------------------------

_SECONDS = (
    Measure("seconds_x10", "seconds x 10", one),
    Measure("alone_x10", "alone x 10", one, paper=False),
    Measure("reading_x10", "reading x 10", one, paper=False),
)
_SECONDS_NOTES = (
    "Seconds of ours: reading the prompt, with its share of what the defense made for the context "
    "of several texts; alone: as if no other text shared the context; reading: the prompt alone. "
    "What a defense needs once a run is not among them.",
    "Seconds depend on device, batch and engine: the paper's hardware is not known, and only "
    "ratios compare.",
)


def _seconds_tables() -> list[Declared]:
    """Tables 5 and 9, of runs with a defense: seconds (x 10) a sample."""
    return [
        _table(
            paper.seconds,
            f"Seconds (x 10) that a sample takes under each defense, {paper.title}.",
            labels=_BY_DEFENSE,
            measures=_SECONDS,
            printed=lambda ours, paper=paper: printed_cells(
                "cap_seconds.csv", paper.seconds, ["seconds_x10"]
            ),
            keys=["dataset", "judge_key", *COLUMN],
            notes=_seconds_notes,
            dataset=dataset,
            lines=_seconds_lines,
            finish=_among,
        )
        for dataset, paper in _PAPERS.items()
    ]


def _seconds_lines(costs: pd.DataFrame) -> pd.DataFrame:
    seconds, reading, context = (
        costs.get(f"{name}seconds", pd.Series(dtype=float)).astype(float).fillna(0.0)
        for name in ("", "reading_", "context_")
    )
    alone = reading + context.where(context != 0, seconds - reading)
    return costs.assign(seconds_x10=10 * seconds, alone_x10=10 * alone, reading_x10=10 * reading)


def _seconds_notes(costs: pd.DataFrame) -> list[str]:
    count = span(costs["n"])
    ours = f"Ours: means over {count} readings, attacked and clean, under each defense."
    notes = [*_SECONDS_NOTES, ours, *_tutor_notes(costs)]
    if costs["mixed"].any():
        notes.append("Ours are means over all dimensions and ranges of the run.")
    return notes


# --- strengths of steering ----------------------------------------------------------------------

_STANDARDS = {
    "alpha_h": (12, "to the high standard (alpha_h)"),
    "alpha_l": (13, "to the low standard (alpha_l)"),
}
_STRENGTH_NOTE = (
    "A strength acts in the unit of a tutor's hidden states, whose lengths differ from model to "
    "model and layer to layer: what compares is the strength over their mean length at the steered "
    "layer."
)


def _strength_tables() -> list[Declared]:
    """Tables 12 and 13, of runs with CAP: the printed strengths in print order, then ours that the
    paper does not have."""
    return [
        _table(
            number_,
            f"Strength of steering {standard}.",
            labels={"dataset": "Data", "judge": "Judge", "tutor_label": "Tutor"},
            measures=[
                Measure(parameter, parameter, two),
                Measure(f"{parameter}_share", f"{parameter} / length", two, paper=False),
            ],
            printed=partial(_printed_strengths, parameter),
            keys=["dataset", "judge_key", "family"],
            notes=_strength_notes,
            lines=partial(_strength_lines, parameter),
            finish=_named,
        )
        for parameter, (number_, standard) in _STANDARDS.items()
    ]


def _strength_lines(parameter: str, rows: pd.DataFrame) -> pd.DataFrame:
    share = rows[parameter] / rows["norm"].astype(float)
    rows = rows.assign(
        family=rows["tutor"].map(tutor_family),
        tutor_label=rows["tutor"].map(lambda name: shorten(name, 30)),
        **{f"{parameter}_share": share},
    )
    return rows.drop_duplicates(["dataset", "judge_key", "family"])


def _printed_strengths(parameter: str, ours: pd.DataFrame) -> pd.DataFrame:
    rows = published("cap_alpha.csv")
    rows = rows[rows["parameter"] == parameter]
    families = {title: family for family, title in TUTORS.items()}
    return pd.DataFrame(
        {
            "dataset": rows["dataset"],
            "judge_key": rows["judge_key"],
            "family": rows["tutor"].map(families),
            "tutor_label": rows["tutor"].str.split("/").str[-1],
            f"{parameter}_published": rows["value"],
        }
    )


def _strength_notes(rows: pd.DataFrame) -> list[str]:
    steered = zip(rows["tutor"], rows["how"], strict=True)
    return [_STRENGTH_NOTE, *(f"{tutor} of ours: {how}." for tutor, how in steered)]
