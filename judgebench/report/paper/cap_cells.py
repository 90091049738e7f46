"""The cells of the CAP paper's tables: its names for judges, attacks and defenses, and the runs' records under them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from judgebench.judges.loading import ModelSource
from judgebench.report.figures.style import file_name, shorten
from judgebench.report.formats import span
from judgebench.report.paper.tables import decoding_of, grouped, judges_of, model_key, published
from judgebench.results.results import Results
from judgebench.results.series import NO_DEFENSE, number, range_of
from judgebench.stats.scores import CLEAN

ATTACKS = {"advsuffix": "AdvSuffix", "dsi": "DSI", "bed": "BED", "adaptive": "Adaptive"}
"""The paper's attacks, and how it prints them."""

ADAPTIVE = "adaptive"
"""The attack that asks the judge to ignore references; the paper tries it on CAP alone."""

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

JUDGE_NAMES = {model_key(judge): name for judge, name in JUDGES.items()}
"""Key -> the printed name."""

TUTORS = {"llama": "meta-llama/Llama-3.1-8B-Instruct", "mistral": "mistralai/Mistral-7B-Instruct"}
"""The paper's tutors: what a column is called by -> id in `published/`."""

CAP, W_CAP, RANDOM = "cap", "w_cap", "random_reference"

PLACE = ["dataset", "dimension", "range"]
"""Keys of a place: a table of ours is of one."""

COLUMN = ["column", "defense", "defense_label", "rank"]
"""Keys of a column of the paper: a defense, and where it has references their tutor; see `Defended`."""

_RECORD = [
    *COLUMN,
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
]
_RECORD += ["clean_mean_score", *(f"spearman{end}" for end in ("", "_low", "_high"))]
_SUFFIX = re.compile(rf"adv_suffix_(?:.+_)?{SUFFIX_LENGTH}")
_FAMILIES = {"llama": re.compile(r"(meta-)?llama"), "mistral": re.compile("mistral")}
_BY_TUTOR = {RANDOM: "random reference", W_CAP: "W-CAP", CAP: "CAP"}
_LABELS = {NO_DEFENSE: "w/o defense", "cot": "CoT", "perplexity": "Perplexity"} | _BY_TUTOR
_MARKS = {"llama": "L", "mistral": "M"}
_ORDER = [NO_DEFENSE, "cot", "perplexity", "", RANDOM, W_CAP, CAP]  # "": defenses that the paper does not have
_RULES = ("expectation", "argmax")  # the paper's open judges score by expectation
_WORDS = "greedy"  # how an answer in words is written, under any decodings of the run


class Defended(NamedTuple):
    """A defense as the paper's columns tell them apart: references are their tutor's.

    Attributes:
        tutor: `llama` or `mistral`, the paper's columns, or the title of another; None of a defense without a tutor.
    """

    defense: str
    tutor: str | None = None

    @property
    def label(self) -> str:
        """The name in tables, such as `CAP_L`."""
        name = _LABELS.get(self.defense, self.defense)
        if self.tutor is None:
            return name
        mark = _MARKS.get(self.tutor)
        return f"{name}_{mark}" if mark and self.defense != RANDOM else f"{name} ({shorten(self.tutor, 30)})"

    @property
    def keys(self) -> dict[str, Any]:
        """`COLUMN`: `column` as in the CSV files, such as `cap_llama`; `rank` in the paper's order of columns."""
        column = self.defense if self.tutor is None else f"{self.defense}_{self.tutor}"
        place = _ORDER.index(self.defense if self.defense in _ORDER else "")
        rank = place + 0.5 * (self.defense in _BY_TUTOR and self.tutor not in _FAMILIES)
        return dict(zip(COLUMN, (column, self.defense, self.label, rank), strict=True))


def defended_by(defense: str, tutor: str | None) -> Defended:
    """The column of a run's defense.

    Args:
        tutor: the title of the run's tutor, if it has one.

    Example:
        >>> defended_by("cap", "Llama-3.1-8B-Instruct").label, defended_by("cot", "Llama-3.1-8B-Instruct").label
        ('CAP_L', 'CoT')
        >>> defended_by("w_cap", "SmolLM2-135M-Instruct").label
        'W-CAP (SmolLM2-135M-Instruct)'
    """
    if defense not in _BY_TUTOR or tutor is None:
        return Defended(defense)
    return Defended(defense, tutor_family(tutor))


def tutor_family(tutor: str) -> str:
    """`llama` or `mistral` where the paper has such a tutor, else the title itself."""
    name = model_key(tutor)
    return next((family for family, pattern in _FAMILIES.items() if pattern.match(name)), tutor)


def printed_defense(name: str) -> Defended:
    """The column that a name in `published/` stands for."""
    head, _, tail = name.rpartition("_")
    return Defended(head, tail) if head and tail in TUTORS else Defended(name)


@dataclass(frozen=True)
class PaperData:
    """A data set of the paper, and the tables that are of it.

    Attributes:
        dimension: of the rubric with all criteria in one prompt.
    """

    dataset: str
    title: str
    dimension: str
    changes: int
    ablation: int
    adaptive: int
    seconds: int


PAPER_DATA = {
    "summeval": PaperData("summeval", "SummEval", "joint", changes=2, ablation=10, adaptive=11, seconds=9),
    "topicalchat": PaperData("topicalchat", "TopicalChat", "overall", changes=3, ablation=6, adaptive=7, seconds=5),
}
"""By data set."""


@dataclass(frozen=True)
class CapCells:
    """The cells of some runs. Rows have `PLACE`, `COLUMN`, `judge_key`, `label` (of the judge), `paper` (whether the
    place is one of the paper's: judged by all criteria in one prompt, from 1 to 5), `tutor` (its title) and `word` (for
    groups); where two runs have the same cell, the first's.

    Attributes:
        attacked: records of metrics.json that have a clean base under the same defense; `attack` is the paper's name,
            `phrase` the run's.
        clean: records of clean texts.
        costs: records of defense/costs.json at each place of their run; `mixed`: whether it has several.
        steered: strengths of CAP: `alpha_h` and `alpha_l` as they act (equations 4, 5), `norm`, mean length of the
            states that they act on, and `how` they were selected.
    """

    attacked: pd.DataFrame
    clean: pd.DataFrame
    costs: pd.DataFrame
    steered: pd.DataFrame


def cap_cells(runs: Iterable[Results]) -> CapCells:
    """The cells of some runs: of each judge the scores by expectation count, as in the paper, else its first by
    argmax; of the records those of the shown split and level."""
    records: list[dict[str, Any]] = []
    costs: list[dict[str, Any]] = []
    steered: list[dict[str, Any]] = []
    for run in runs:
        judges, path = judges_of(run), run.config.get("tutor") or {}
        tutor = ModelSource(path["path"], path.get("gguf_file")).title if path.get("path") is not None else None
        records += _records(run.shown, judges, tutor, run.groups)
        key, label = judges["main"]
        places = list({tuple(place.values()): place for place in map(_place, run.shown)}.values())
        defended = any(cost["defense"] != NO_DEFENSE for cost in run.costs)  # else they are no cost of a defense
        for place in places:
            keys = place | {"judge_key": key, "label": label}
            for cost in run.costs if defended else ():
                column = defended_by(str(cost["defense"]), tutor).keys
                costs.append({**cost, **keys, **column, "tutor": tutor, "mixed": len(places) > 1})
            steered += [keys | strengths for strengths in _steered(run, place, tutor)]
    rows, cell = _frame(records, _RECORD), [*PLACE, "judge_key"]
    attacked = rows[(rows["attack"] != CLEAN) & rows["delta"].notna()].drop_duplicates([*cell, "column", "attack"])
    clean = rows[(rows["attack"] == CLEAN) & rows["spearman"].notna()].drop_duplicates([*cell, "column"])
    cost_rows = _frame(costs, COLUMN).drop_duplicates([*cell, "column"])
    return CapCells(attacked, clean, cost_rows, _frame(steered, ["tutor"]).drop_duplicates([*cell, "tutor"]))


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """The rows, with these columns in any case."""
    frame = pd.DataFrame(rows)
    return frame.reindex(columns=list(dict.fromkeys([*frame, *PLACE, "paper", "judge_key", "label", *columns])))


def _records(
    records: Sequence[Mapping[str, Any]], judges: Mapping[str, tuple[str, str]], tutor: str | None, word: str
) -> list[dict[str, Any]]:
    """The records with the keys of their cells: of each judge and defense, those of one decoding."""
    decodings: dict[tuple[str, str], str | None] = {}
    rows = []
    for record in records:
        role, defense = str(record["judge"]), str(record["defense"])
        if (role, defense) not in decodings:
            same = [other for other in records if other["defense"] == defense]
            names = (decoding_of(same, role, rule) for rule in _RULES)
            decodings[role, defense] = next((name for name in names if name is not None), None)
        attack = str(record["attack"])
        kind = "advsuffix" if _SUFFIX.fullmatch(attack) else attack
        # a null context is never attacked: it says the same of everything
        silent = role == "assistant" and record.get("constant")
        counts = role in judges and record["decoding"] == decodings[role, defense] and kind in (CLEAN, *ATTACKS)
        if counts and not silent:
            labels = {"judge_key": judges[role][0], "label": judges[role][1], "attack": kind, "phrase": attack}
            column = defended_by(defense, tutor)
            rows.append({**record, **_place(record), **labels, **column.keys, "word": word})
            rows[-1]["tutor"] = tutor if column.tutor is not None else None
    return rows


def _place(record: Mapping[str, Any]) -> dict[str, Any]:
    score_range, dataset, dimension = range_of(record), str(record["dataset"]), str(record["dimension"])
    data = PAPER_DATA.get(dataset)
    ends = score_range.minimum, score_range.maximum
    paper = data is not None and data.dimension == dimension and ends == (1.0, 5.0)
    return {"dataset": dataset, "dimension": dimension, "range": str(score_range), "paper": paper}


def _steered(run: Results, place: Mapping[str, Any], tutor: str | None) -> list[dict[str, Any]]:
    """The strengths of a run's CAP references in one dimension; none without any."""
    dimension = place["dimension"]
    rows = run.references[(run.references["defense"] == CAP) & (run.references["dimension"] == dimension)]
    if not len(rows) or rows[["alpha_high", "alpha_low"]].isna().any(axis=None):
        return []
    alphas = {side: float(rows[f"alpha_{side}"].iloc[0]) for side in ("high", "low")}
    selected = {
        (tried["side"], tried["alpha"])
        for tried in run.strengths
        if tried["chosen"] and tried["dimension"] == dimension
    }
    tried = selected >= set(alphas.items())
    how = "the strengths tried whose texts scored nearest to the thresholds" if tried else "as configured"
    standard = next((record for record in run.standards if record["dimension"] == dimension), None)
    norm = None
    if standard is not None:
        layer = int(standard["layer"])
        norm = number(standard["norms"][layer - 1])
        how += f"; steered at layer {layer} of {len(standard['norms'])}"
        tutor = tutor or str(standard["tutor"])
    strengths = {"alpha_h": alphas["high"], "alpha_l": alphas["low"], "norm": norm}
    return [{"tutor": tutor or "tutor", "how": how, **strengths}]


# --- the print, names and notes ---------------------------------------------------------------------------------------


def printed_cells(name: str, table: int, keys: Sequence[str]) -> pd.DataFrame:
    """The rows of one of the paper's tables in a file of `published/`: `COLUMN`, `<key>_published`, and `<key>_unread`
    where the print cannot be read."""
    rows = published(name)
    rows = rows[rows["table"] == table].reset_index(drop=True)
    figures = {f"{key}_published": rows[key].astype(float) for key in keys}
    unread = {f"{key}_unread": rows[key].isna() for key in keys}
    columns = pd.DataFrame([printed_defense(defense).keys for defense in rows["defense"]])
    keyed = [column for column in ("attack", "judge_key") if column in rows]
    return pd.concat([rows[keyed], columns], axis=1).assign(**figures, **unread, printed=True)


def beside(printed: pd.DataFrame | None, ours: pd.DataFrame, attacks: Sequence[str] = ()) -> pd.DataFrame:
    """Rows of ours and of the print, joined by judge, attack and column, and so sorted, the paper's judges first.

    Args:
        printed: None where the paper has nothing of the kind.
        attacks: in their order; empty where rows are of clean texts.
    """
    on = ["judge_key", *COLUMN, *(["attack"] if attacks else [])]
    rows = ours.assign(ours=True)
    if printed is not None:
        rows = printed.merge(rows, how="outer", on=on)
    order = [*(JUDGE_NAMES if printed is not None else ()), *ours["judge_key"]]
    names = dict(zip(ours["judge_key"], ours["label"], strict=True)) | (JUDGE_NAMES if printed is not None else {})
    rows = rows.reindex(columns=list(dict.fromkeys([*rows, "printed"])))
    rows = rows.assign(
        judge=rows["judge_key"].map(names),
        ours=rows["ours"].notna(),
        printed=rows["printed"].notna(),
        judge_rank=rows["judge_key"].map(order.index),
        attack_rank=rows["attack"].map(list(attacks).index) if attacks else 0,
    )
    return rows.sort_values(["judge_rank", "attack_rank", "rank"], kind="stable", ignore_index=True)


def own_name(place: Sequence[str], rows: pd.DataFrame) -> str:
    """The name of a table that the paper does not have, with the range where the rows have several."""
    dataset, dimension, score_range = place
    same = rows[(rows["dataset"] == dataset) & (rows["dimension"] == dimension)]
    several = same["range"].nunique() > 1
    return "_".join(["cap_own", *map(file_name, [dataset, dimension, *([score_range] if several else [])])])


def place_text(place: Sequence[str]) -> str:
    """A place in words."""
    return f"{place[0]}, {place[1]}, range {place[2]}"


def compared_with(dataset: str) -> list[str]:
    """Sentences on how the paper judges the same data set; none of others."""
    data = PAPER_DATA.get(dataset)
    if data is None:
        return []
    return [
        f"The paper judges {data.title} by all criteria in one prompt (dimension {data.dimension}) from 1 to 5: its "
        f"table {data.changes}."
    ]


def attacked_notes(rows: pd.DataFrame) -> list[str]:
    """The provenance of attacked scores of ours."""
    notes = []
    for (dataset, split, word), part in grouped(rows, ["dataset", "split", "word"]):
        texts, groups = span(part["paired"]), span(part["groups"])
        notes.append(
            f"Ours: {dataset}, {split} split, {texts} texts of {groups} {word}, scored clean and attacked under the "
            "same defense."
        )
    notes += scored_notes(rows)
    if phrases := dict.fromkeys(rows.loc[rows["attack"] == "advsuffix", "phrase"]):
        notes.append(f"AdvSuffix of ours: {', '.join(phrases)}, the learned phrase of {SUFFIX_LENGTH} words.")
    return notes


def scored_notes(rows: pd.DataFrame) -> list[str]:
    """The decodings of our judges, and which tutors stand in the paper's columns."""
    usual: dict[str, str] = {}
    for judge, how in zip(rows["label"], rows["decoding"], strict=True):
        if usual.get(judge, _WORDS) == _WORDS:
            usual[judge] = how
    notes = [f"Scores of ours: {', '.join(f'{judge} by {how}' for judge, how in usual.items())}."]
    in_words = rows[(rows["decoding"] == _WORDS) & (rows["label"].map(usual) != _WORDS)]
    if len(in_words):
        notes.append(
            f"Under {', '.join(in_words['defense_label'].unique())} the judge answers in words: the number that it "
            "ends with counts, and no expectation."
        )
    return notes + tutor_notes(rows)


def tutor_notes(rows: pd.DataFrame) -> list[str]:
    """The authors of the references in the paper's columns."""
    written = rows[rows["tutor"].notna() & rows["defense"].isin(_BY_TUTOR)]
    notes = []
    for (column, defense, label, _), part in grouped(written, COLUMN):
        titles = list(part["tutor"].unique())
        if column != f"{defense}_{titles[0]}":
            notes.append(f"{label} of ours: references by {', '.join(titles)}.")
    return notes
