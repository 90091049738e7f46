"""Names of things that earlier versions of judgebench had: one table, which the refusals of unknown names look into."""

from __future__ import annotations

import re

DROPPED = {
    "store=parquet:": (
        "readings are kept in SQLite, as store=outputs/readings.sqlite, or not at all "
        "(store=none); the readings of a Parquet store come into a SQLite file by the version "
        "that wrote them, with `python -m judgebench.store copy parquet:FOLDER "
        "outputs/readings.sqlite`"
    ),
    "store list": ("take `python -m judgebench.store verify STORE`, which says how many readings a store has"),
    "store copy": ("take `python -m judgebench.store merge FROM out=TO`"),
    "store prune": (
        "a reading that does not match its checksum is read again without it; `python -m "
        "judgebench.store merge STORE out=OTHER` leaves such readings out"
    ),
    "judgebench plan": (
        "a run says how wide its intervals are (How sure is all that?); a width shrinks with "
        "the root of the number of labelled articles, so half of it takes four times as many, "
        "drawn at random"
    ),
    "judge.members.card": (
        "members are recorded readings, run folders and answers; score the texts with the card "
        "by `python -m judgebench.score card=FILE`, and name its scores, as {path: "
        "scores.jsonl, fields: {text: score}}"
    ),
    "judge.members.store": (
        "members are recorded readings, run folders and answers; run the model on these texts, "
        "which costs nothing where its readings are stored, and name the run's folder"
    ),
    "judge.combine=rank": ("take judge.combine=mean"),
    "judge.combine=nnls": ("take judge.combine=mean: on unseen articles it orders texts as well as learned weights do"),
    "card of judgebench.judges.panel.PanelSpec": (
        "calibrate each judge of the panel with `python -m judgebench.calibrate`, and take the mean of their estimates"
    ),
    "decoding=trimmed": "take decoding=[expectation], which agrees with people as well",
    "decoding=plausible": "take decoding=[expectation], which agrees with people as well",
    "decoding=unnormalized": "take decoding=[expectation], which agrees with people as well",
    "judgebench.decoding.Trimmed": "take judgebench.decoding.Expectation, which agrees with people as well",
    "judgebench.decoding.Plausible": "take judgebench.decoding.Expectation, which agrees with people as well",
    "tune.metric=stability": "take tune.metric=spearman",
    "calibrate.metric=stability": "take calibrate.metric=spearman",
    "dry_run=measure": (
        "take dry_run=true, which says how many tokens are computed; while a run reads, its bar says what is left"
    ),
    "tune=exact": "take tune=dev, which takes the best of the grid",
    "judgebench.tuning.Exact": "take tune=dev, which takes the best of the grid",
    "sweeps=cd_kappa_exact": "take tune=dev without a sweep, or +sweeps=cd_lambda_t",
    "own tables": (
        "the papers' tables hold the papers' models, data and ranges alone, and these runs have none; "
        "`python -m judgebench.report RUN` makes the page with all numbers"
    ),
}
"""A command, a key, a key with its value, or a class, as it was written -> what to use instead, as a clause."""


def dropped(name: str) -> str | None:
    """The sentence on a name that was dropped, of a list's entry without its place; None where it was not."""
    instead = DROPPED.get(re.sub(r"\[\d+\]", "", name))
    return f"{name}: is dropped; {instead}." if instead else None
