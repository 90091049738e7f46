"""Learned phrases: their effect word by word, on texts that they were learned on and on others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from judgebench.report.table import Block, Col, Heading, Paragraph, View
from judgebench.report.views.attacks import (
    AT_MAX,
    CHANGE,
    EXCLUDES_ZERO,
    FIRST,
    PLACES,
    RATE,
    RISES,
)
from judgebench.report.views.defenses import with_stand_ins
from judgebench.results.results import NO_DEFENSE, Results, SeriesIndex, defenses_of, labelled
from judgebench.studies.evaluate import ALL, SEEN, UNSEEN
from judgebench.studies.scores import shown_split
from judgebench.words.formats import two, whole

PHRASE = ["suffix", "dimension", "range"]
"""Keys of one phrase in one dimension and range."""

PANEL = [*PHRASE, "split", "contexts", "systems"]
"""Keys of texts that are alike in whether the phrase was learned on them."""


def phrase_frame(results: Results) -> pd.DataFrame:
    """The records of attack/suffix.json, a row a part of the texts, judge and number of words;
    texts that the phrase never saw come first, and of each curve 0 words, the clean texts, whose
    changes are unknown.

    Added are `base`, the judge and decoding, and `series`, with the defense where a run has
    several; `panel`, such as "unseen articles, unseen systems", with `texts` and `sources`, its
    numbers of texts and groups at most; `title` and `whole`, the whole phrase; and `silent`,
    whether the phrase never changes the judge's scores, which are all alike. All systems are left
    out where only seen or only unseen ones have texts.
    """
    standing = with_stand_ins(results.suffix)
    if not standing:
        return pd.DataFrame()
    rows = pd.DataFrame(labelled(standing)).rename(columns={"series": "base"})
    # 1. names
    rows["series"] = rows["base"]
    if rows["defense"].nunique() > 1:
        defenses = ", defense " + rows["shown_defense"]
        undefended = rows["shown_defense"] == NO_DEFENSE
        rows["series"] += defenses.mask(undefended, ", no defense")
    place = rows["dimension"] + ", range " + rows["range"]
    learned = rows["objective"].map(lambda name: f" (learned for: {name})" if name else "")
    rows["title"] = place + ": " + rows["suffix"] + learned
    rows["panel"] = rows["contexts"] + f" {results.groups}, " + rows["systems"] + " systems"
    # 2. judges that say the same of every text; all systems, where some were seen and some not
    unmoved = (rows["change"] == 0) & (rows["raised_share"] == 0)
    still = rows["standardized"].isna() & unmoved
    curves = [rows[name] for name in (*PHRASE, "series")]
    rows["silent"] = still.groupby(curves).transform("all")
    texts = [rows[name] for name in PANEL[:-1]]
    drawn = rows["systems"].mask(rows["silent"] | (rows["systems"] == ALL))
    kinds = drawn.groupby(texts).transform("nunique")
    rows = rows[(rows["systems"] != ALL) | (kinds > 1)]
    # 3. Unseen texts first; phrases in order of appearance, judges and defenses as in all tables.
    split = shown_split(rows["split"])
    orders: dict[Any, Any] = {name: list(dict.fromkeys(rows[name])).index for name in PHRASE}
    orders |= {
        "contexts": (UNSEEN, SEEN).index,
        "split": lambda name: name != split,
        "systems": (UNSEEN, SEEN, ALL).index,
        "base": list(map(str, SeriesIndex(standing).all)).index,
        "defense": defenses_of(standing).index,
        "length": int,
    }
    rows = rows.sort_values(list(orders), key=lambda column: column.map(orders[column.name]))
    # 4. the sizes of panels, and the longest phrase; a change of clean texts is unknown
    panels = rows.groupby(PANEL, sort=False)
    rows["texts"] = panels["n"].transform("max")
    rows["sources"] = panels["groups"].transform("max")
    rows["words"] = rows.groupby(PHRASE, sort=False)["length"].transform("max")
    for name in ("change", "change_low", "change_high", "raised_share", "places_gained"):
        rows[name] = rows[name].astype(float).where(rows["length"] > 0)
    longest = rows.sort_values("length", kind="stable").groupby(PHRASE)
    rows["whole"] = longest["phrase"].transform("last")
    return rows.reset_index(drop=True)


def drawn_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of judges whose scores move, of texts that are all alike: without those of all
    systems."""
    return rows[~rows["silent"] & (rows["systems"] != ALL)] if len(rows) else rows


def _words(results: Results) -> pd.DataFrame:
    """The first panel of each phrase: of texts that it never saw, where there are such."""
    rows = drawn_rows(phrase_frame(results))
    return rows.merge(rows.drop_duplicates(PHRASE)[PANEL], on=PANEL) if len(rows) else rows


def _sides(results: Results) -> pd.DataFrame:
    """The longest phrase on each kind of texts, with the mean score of the clean ones."""
    rows = phrase_frame(results)
    rows = rows[~rows["silent"]] if len(rows) else rows
    if not len(rows):
        return rows
    curve = [*PANEL, "series"]
    rows["clean"] = rows.groupby(curve)["mean_score"].transform("first")  # of 0 words
    return rows.drop_duplicates(curve, keep="last")


WORDS = View(
    "phrases",
    "Learned phrases",
    _words,
    [
        Col(
            "phrase",
            lambda row: row["phrase"] if row["length"] else "(none)",
            left=True,
            width=30,
        ),
        Col(
            "words",
            "length",
            whole,
            says="how many of it stand behind a text; 0 are the clean texts",
        ),
        Col("mean", "mean_score", two, ends=two),
        CHANGE,
        RATE,
        RISES,
        replace(AT_MAX, page=True),
        FIRST,
        replace(PLACES, page=True),
    ],
    by=PHRASE,
    title="{title}",
    size="{panel}, {split} split, {texts} texts of {sources} {groups_word}",
    sections=["series"],
    section="{series}",
    note="Seen: the phrase was learned on these {groups}, or on texts of these systems; unseen: it "
    "never saw them, and only they show its effect elsewhere.",
    brackets="{groups} resampled, clean and attacked together",
    marks=EXCLUDES_ZERO,
)

SIDES = View(
    "seen_and_unseen",
    "Seen and unseen texts",
    _sides,
    [
        Col("texts", "{panel} ({split})", left=True),
        Col("n", "texts", whole),
        Col("clean", form=two),
        Col("attacked", "mean_score", two),
        CHANGE,
    ],
    by=PHRASE,
    title="{title}, words: {words}",
    sections=["series"],
    section="{series}",
    marks=EXCLUDES_ZERO,
)


def silent_note(rows: pd.DataFrame) -> str:
    """The judges that are left out of the rows of one phrase, and why; empty where there are
    none."""
    names = dict.fromkeys(rows.loc[rows["silent"], "series"])
    sentence = "Left out, for they say the same of every text, whatever is appended: "
    return f"{sentence}{'; '.join(names)}." if names else ""


def phrase_blocks(results: Results) -> list[Block]:
    """The phrases spelled out, and the tables of their effect."""
    rows = phrase_frame(results)
    if not len(rows):
        return []
    blocks: list[Block] = [Heading(WORDS.heading)]
    for _, part in rows.groupby(PHRASE, sort=False):
        title, whole = part[["title", "whole"]].iloc[0]
        blocks.append(Paragraph(f"{title}: “{whole}”. {silent_note(part)}".rstrip()))
    return [*blocks, *WORDS.tables(results), *SIDES(results)]
