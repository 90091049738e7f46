"""Causes of errors as tables and sentences; and a run on real ratings from end to end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from judgebench.report.table import Paragraph, Table
from judgebench.report.views.errors import error_sentences, error_tables, factor_frame
from judgebench.report.views.forecasts import forecast_sentences, mass_sentences
from judgebench.results.results import Results
from judgebench.stats.errors import doublings, error_records
from tests.stats.sides import cell, side


def results(*sides):
    metrics = [
        {**one.head, "level": "dataset", "spearman": 0.5 - place / 10, "flags": []} for place, one in enumerate(sides)
    ]
    about = {"scale": {"coherence": (1.0, 5.0)}}
    return Results(errors=error_records(sides), metrics=metrics, about=about)


def caused(length=0.0, own=0.0, noise=0.02):
    rng = np.random.default_rng(4)
    base = side(texts=["x" * int(one) for one in rng.choice([10, 20, 40], 60)])
    error = length * doublings(base.texts) + own * (base.systems == "M2") + rng.normal(0, noise, 60)
    return replace(base, scores=base.human + error)


def test_a_cause_is_told_with_its_interval():
    made = results(caused(length=0.5, own=0.4))
    factor, system = error_sentences(made)
    ((length,),) = [record["factors"] for record in made.errors]
    assert factor.startswith("coherence, main, expectation in range 1-5: a text twice as long gets ")
    assert f"{length['estimate']:.2f} points [{length['estimate_low']:.2f}, " in factor
    assert factor.endswith("] more, relative to the humans.")
    assert "relative to the humans it scores M2 " in system


def test_no_cause_is_claimed_where_chance_may_be_one():
    factor, system = error_sentences(results(caused(noise=0.5)))
    assert factor.endswith("its errors have no clear link with length.")
    assert system.endswith("no system's error differs clearly from the others'.")
    assert error_sentences(results(replace(caused(0.5, 0.4), groups=np.array(["a", "b"] * 30)))) == []


def test_a_judge_that_tells_texts_apart_poorly_is_said_to_draw_systems_together():
    base = side()
    mean = {name: base.human[base.systems == name].mean() for name in np.unique(base.systems)}
    spread = np.argsort(np.argsort([mean[name] for name in base.systems])) / 60  # systems differ a lot to humans
    apart = replace(base, ratings=base.ratings + np.round(spread * 3)[:, None] - 1, scores=np.full(60, 3.0))
    (_, told) = error_sentences(results(apart))
    assert told.endswith("as they do where a judge tells good texts from bad ones less than the humans do.")


def test_tables_show_the_leading_cell_and_fold_the_others():
    made = results(caused(0.5), replace(caused(0.1), cell=cell(ends=(0.0, 4.0))), replace(caused(), cell=cell("pair")))
    tables = [one for one in error_tables(made) if isinstance(one, Table)]
    assert [(one.name, bool(one.folded)) for one in tables] == [
        ("errors", False),
        ("error_slices", False),
        ("errors_others", True),
    ]
    (row,) = tables[0].sections[0].rows
    assert row[0].text == "main, expectation in range 1-5"
    assert len(tables[2].sections[0].rows) == 2
    assert [len(part.rows) for part in tables[1].sections] == [5, 2]
    lines = [one.text for one in error_tables(made) if isinstance(one, Paragraph)]
    assert lines == [
        "Left out of coherence: format (texts differ little in marked-up lines); family (no system, or every one, is "
        "of the judge's family by its name)."
    ]
    assert len(factor_frame(made, lead=False)) == 2


@pytest.mark.parametrize(
    "more", [{"scale": None}, {"ratings": np.full((60, 1), np.nan)}, {"groups": 1}, {"texts": (), "model": None}]
)
def test_what_is_not_known_is_not_shown(more):
    made = results(side(**more))
    assert all("nan" not in one and "None" not in one for one in error_sentences(made))
    for table in error_tables(made):
        assert "nan" not in str(table)
    assert error_tables(Results()) == error_sentences(Results()) == []


def test_a_run_on_recorded_readings_studies_them_all(judgebench):
    judgebench("+exp=demo", "report=false", "worth=true", "metrics.resamples=50", "run_dir=run")
    found = Results.load("run")
    assert Path("run/worth/forecasts.json").is_file()
    assert [one["decodings"] for one in found.forecasts[:3]] == [["greedy", "expectation"]] * 2 + [["contrastive"]]
    assert len(found.forecasts) == 12
    assert len(found.errors) == 20
    assert all(0.9 < one["mass"] <= 1 for one in found.forecasts if one["judge"] != "pair")
    assert all(0.85 < one["coverage"] <= 1 for one in found.forecasts)
    assert len(forecast_sentences(found)) == 2
    assert len(mass_sentences(found)) == 1
    assert len(error_sentences(found)) == 2
