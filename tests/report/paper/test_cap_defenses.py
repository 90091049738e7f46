"""The CAP paper's tables of defenses: a run that finds what is printed stands beside it, cell by cell."""

import dataclasses

import pandas as pd
import pytest

from judgebench.report.paper.cap import JUDGES, TUTORS, build_cap, column_of
from judgebench.report.paper.tables import published
from judgebench.results import schema
from judgebench.results.schema import REFERENCES_SCHEMA
from tests.report.defended_records import cost, references, standard
from tests.report.paper.conftest import HOSTILE, check_forms, files_of, run_of
from tests.report.paper.test_cap_tables import changed

LLAMA, MISTRAL = (name.split("/")[-1] for name in TUTORS.values())
JUDGE = "meta-llama/Llama-3.1-8B-Instruct"
PLACES = {"summeval": "joint", "topicalchat": "overall"}
ATTACKS = {"advsuffix": "adv_suffix_4", "dsi": "dsi", "bed": "bed", "adaptive": "adaptive"}
OURS = {"cap_llama": "cap", "w_cap_llama": "w_cap", "cap_mistral": "cap"}


def clean(defense="none", spearman=0.2, dataset="summeval", **more):
    """A record of metrics.json of clean texts."""
    found = changed("none", dataset=dataset, dimension=PLACES.get(dataset, "joint"), defense=defense, delta=0.0)
    found |= {"delta": None, "change": None, "n": 1440, "spearman": spearman, "spearman_low": spearman - 0.1}
    return found | {"spearman_high": spearman + 0.1} | more


def attacked(attack, defense, delta, rate, dataset, clean_mean=3.0, **more):
    """A record of metrics.json of an attack that raises scores."""
    means = {"clean_mean_score": clean_mean, "attacked_mean_score": clean_mean + delta}
    means |= {f"{name}{end}": value for name, value in means.items() for end in ("_low", "_high")}
    return changed(attack, delta, defense=defense, dataset=dataset, dimension=PLACES.get(dataset, "joint"),
                   rate_of_means=rate / 100, mean_of_rates=rate / 100, **means) | more  # fmt: skip


def as_printed(judge=JUDGE, tutor=LLAMA, dataset="summeval"):
    """The run of a judge and a tutor that finds exactly what the paper prints."""
    family = column_of("cap", tutor)["column"]
    tables = {"summeval": (2, 10, 11), "topicalchat": (3, 6, 7)}[dataset]

    def printed(name, **given):
        rows = published(name)
        return rows[(rows[["judge", *given]] == pd.Series({"judge": judge, **given})).all(axis=1)]

    changes = printed("cap_score_change.csv")
    changes = changes[changes["table"].isin(tables) & changes["delta"].notna()]
    changes = changes[changes["defense"].isin(["none", "cot", "perplexity", "w_cap_llama", family])]
    records = []
    for row in changes.drop_duplicates(["attack", "defense"]).itertuples():  # others repeat cells of the main table
        words = {"decoding": "greedy", "rule": None} if row.defense == "cot" else {}
        figures = (row.delta, row.rate_percent, dataset)
        records.append(attacked(ATTACKS[row.attack], OURS.get(row.defense, row.defense), *figures, **words))
    spearman = printed("cap_spearman.csv", table=4)
    records += [
        clean(OURS.get(row.defense, row.defense), row.spearman_x100 / 100, dataset)
        for row in spearman[spearman["defense"].isin(["none", family])].itertuples()
    ]
    seconds = printed("cap_seconds.csv", dataset=dataset)
    costs = [
        cost(OURS.get(row.defense, row.defense), row.seconds_x10 / 10, dataset=dataset)
        for row in seconds[seconds["defense"].isin(["none", "cot", "perplexity", family])].itertuples()
    ]
    strengths = printed("cap_alpha.csv", dataset=dataset)
    alphas = strengths[strengths["tutor"].str.endswith(tutor)].set_index("parameter")["value"]
    rows = references("cap", [(4.0, 2.0)], alphas=(alphas["alpha_h"], alphas["alpha_l"]))
    frame = pd.DataFrame(rows, columns=REFERENCES_SCHEMA.names).assign(dimension=PLACES[dataset])
    standards = [standard(dimension=PLACES[dataset], tutor=tutor)]
    return run_of(records, judge.split("/")[-1], tutor=tutor, standards=standards, references=frame, costs=costs)


def built(*runs):
    return {table.name: table for table in build_cap(runs)}


def ours(table):
    return table.rows[table.rows["ours"]]


@pytest.mark.parametrize(
    ("dataset", "judge", "tables"),
    [
        ("summeval", JUDGE, ("2", "10", "11", "9")),
        ("topicalchat", "gemini-2.0", ("3", "6", "7", "5")),  # the scan of table 7 shows no open judge
    ],
)
def test_a_run_that_finds_the_print_stands_beside_it(dataset, judge, tables):
    found = built(as_printed(judge, dataset=dataset))
    assert set(found) == {f"cap_table_{number}" for number in (*tables, "1", "2", "3", "4", "8", "12", "13")}
    main, ablation, adaptive = (found[f"cap_table_{number}"] for number in tables[:3])
    for table, columns in (
        (main, {"none", "cot", "perplexity", "w_cap_llama", "cap_llama"}),
        (ablation, {"none", "w_cap_llama", "cap_llama"}),
        (adaptive, {"cap_llama"}),
    ):
        own = ours(table)
        assert set(own["judge"]) == {JUDGES[judge]} != set(table.rows["judge"])
        assert set(own["column"]) == columns
        known = own[own["delta_published"].notna()]
        assert known["delta"].tolist() == known["delta_published"].tolist()
        assert (100 * known["rate_of_means"]).tolist() == pytest.approx(known["rate_percent_published"].tolist())
    assert set(adaptive.rows["attack_label"]) == {"Adaptive", "DSI", "BED"}
    for number, key, count in (
        *(("4", "spearman_x100", 2), (tables[3], "seconds_x10", 4), ("12", "alpha_h", 1), ("13", "alpha_l", 1)),
        ("8", "change_x100", 1),
    ):
        own = ours(found[f"cap_table_{number}"]).dropna(subset=[key])
        assert len(own) == count
        assert own[key].tolist() == pytest.approx(own[f"{key}_published"].tolist())
    change = ours(found["cap_table_8"]).dropna(subset=["change_x100"]).iloc[0]
    assert change["rate_percent"] == pytest.approx(change["rate_percent_published"], abs=0.5)


def test_every_printed_figure_of_these_tables_is_in_the_repository():
    counts = {"cap_motivation.csv": 8, "cap_seconds.csv": 50, "cap_spearman.csv": 30, "cap_alpha.csv": 40}
    assert {name: len(published(name)) for name in counts} == counts
    found = built(as_printed(), as_printed(dataset="topicalchat"))
    printed = {name: int(found[f"cap_table_{name}"].rows["printed"].sum()) for name in ("5", "9", "12", "13")}
    assert printed == {"5": 25, "9": 25, "12": 20, "13": 20}
    alphas = published("cap_alpha.csv").groupby("parameter")["value"]
    for number, parameter in (("12", "alpha_h"), ("13", "alpha_l")):
        shown = found[f"cap_table_{number}"].rows[f"{parameter}_published"]
        assert shown.tolist() == alphas.get_group(parameter).tolist()


def test_a_tutor_that_the_paper_does_not_have_gets_its_own_column():
    other = built(dataclasses.replace(as_printed(), config={"tutor": {"path": "SmolLM2-135M-Instruct"}}))
    rows = other["cap_table_10"].rows
    rows = rows[(rows["judge"] == JUDGES[JUDGE]) & (rows["attack"] == "dsi")].set_index("defense_label")
    assert rows.loc["CAP (SmolLM2-135M-Instruct)", ["ours", "printed"]].tolist() == [True, False]
    assert rows.loc["CAP_L", ["ours", "delta_published"]].tolist() == [False, 0.06]
    assert ours(other["cap_table_12"])["tutor"].tolist() == ["SmolLM2-135M-Instruct"]


def test_runs_of_two_tutors_stand_in_one_table():
    table = built(as_printed(), as_printed(tutor=MISTRAL))["cap_table_2"]
    rows = table.rows[(table.rows["judge"] == JUDGES[JUDGE]) & (table.rows["attack"] == "advsuffix")]
    rows = rows.set_index("defense_label")
    assert list(rows.index) == ["w/o defense", "CoT", "Perplexity", "W-CAP_L", "W-CAP_M", "CAP_L", "CAP_M"]
    known = rows.loc[["w/o defense", "CoT", "Perplexity", "CAP_L", "CAP_M"]]
    assert known["delta"].tolist() == known["delta_published"].tolist()
    for mark, title in (("L", LLAMA), ("M", MISTRAL)):
        assert f"CAP_{mark} of ours: references by {title}." in table.notes


@pytest.mark.parametrize(
    ("tutor", "label"),
    [
        ("Meta-Llama-3-8B-Instruct", "CAP_L"),
        ("meta-llama/Llama-3.2-1B", "CAP_L"),
        ("Mistral-7B-Instruct-v0.3", "CAP_M"),
        ("TinyLlama-1.1B", "CAP (TinyLlama-1.1B)"),
        (None, "CAP"),
    ],
)
def test_which_column_a_tutor_is(tutor, label):
    assert column_of("cap", tutor)["defense_label"] == label
    assert column_of("mine", tutor)["defense_label"] == "mine"


def test_what_is_in_words_is_taken_and_told():
    words = {"decoding": "greedy", "rule": None}
    records = [attacked("dsi", "none", 0.5, 20, "summeval"), attacked("dsi", "cot", 0.3, 9, "summeval", **words)]
    records.append(attacked("dsi", "none", 9.0, 9, "summeval", decoding="greedy", rule="argmax"))
    table = built(run_of(records))["cap_table_2"]
    assert dict(zip(ours(table)["column"], ours(table)["delta"], strict=True)) == {"none": 0.5, "cot": 0.3}
    notes = " ".join(table.notes)
    assert "Scores of ours: J by expectation." in notes
    assert "Under CoT the judge answers in words" in notes


def test_references_are_held_against_the_original_and_against_their_own_clean_texts():
    given = [("none", 1.17, 3.42), ("random_reference", 0.5, 3.52), ("cap", 0.04, 3.42)]
    records = [attacked("adv_suffix_4", name, delta, 9, "summeval", mean) for name, delta, mean in given]
    records.append(attacked("dsi", "none", 0.5, 9, "summeval", 3.42))
    table = built(run_of(records, JUDGE.split("/")[-1], tutor=LLAMA))["cap_table_1"]
    rows = table.rows[table.rows["dataset"] == "summeval"].set_index(["attack_label", "condition"])
    both = ["score", "change", "score_published", "change_published", "clean"]
    reference = rows.loc[("AdvSuffix", f"random reference by {LLAMA}"), both]
    assert reference.tolist() == pytest.approx([4.02, 0.60, 4.02, 0.60, 3.52])
    assert rows.loc[("AdvSuffix", "attack"), "change"] == pytest.approx(1.17)
    assert rows.loc[("AdvSuffix", f"standard reference by {LLAMA}"), both[2:4]].tolist() == [3.46, 0.04]
    assert not rows.loc[("DSI", "attack"), "printed"]
    other = table.rows.loc[table.rows["dataset"] == "topicalchat", "score_published"]
    assert other.tolist() == [3.16, 4.29, 3.47, 3.27]
    assert "inferred from its other figures: summeval original (3.42), summeval attack (4.59)" in " ".join(table.notes)
    # without a base there is nothing to hold them against
    assert "cap_table_1" not in built(run_of(records[1:3], tutor=LLAMA))


def test_all_forms_are_whole_whatever_names_hold():
    run = as_printed()
    hostile = dataclasses.replace(run, about={"titles": {"main": HOSTILE}}, config={"tutor": {"path": HOSTILE}})
    tables = build_cap([hostile, as_printed(dataset="topicalchat")])
    assert all(schema.PLACES["tables"].fullmatch(name) for name in files_of(tables))
    check_forms(tables)
