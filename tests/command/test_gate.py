"""The gate: a judge that passes, fails or cannot be measured; its drift; and the file for CI as printed."""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import yaml

from judgebench.cards import JudgeCard
from judgebench.cards.calibration import Labelled, estimate_errors, fit, scores_of, share_in_card, text_digests
from judgebench.cards.requirements import (
    OF_DECISIONS,
    Change,
    by_changes,
    card_figures,
    changes_of,
    figures_of,
    more_low_rated,
    not_required,
    noticed,
    outcomes_of,
    paired_changes,
    requirements_of,
    untested,
)
from judgebench.command.calibrate import main as calibrate_main
from judgebench.command.gate import main as gate_main
from judgebench.stats.clusters import Clusters
from judgebench.stats.correlation import DistinctPairs
from judgebench.types import Example, ScoreRange
from judgebench.words.errors import UserError
from tests.cards.test_card import DECISION, card
from tests.conftest import read_rows, run_in, write_rows

ROOT = Path(__file__).parents[2]
FAST = ("metrics.resamples=200", "report=false", "run_dir=gate")


def labelled(folder: Path, name: str, articles: int, seed: int, noise: float = 0.7) -> list:
    """A file of labels by three raters, four systems an article; the answers of a judge with that noise."""
    rng = np.random.default_rng(seed)
    rows, answers = [], []
    for article in range(articles):
        for system in range(4):
            quality = rng.normal(3 + 0.3 * system, 1)
            scores = np.clip(np.round(quality + 0.5 * rng.normal(size=3)), 1, 5).tolist()
            text = {
                "example_id": f"{name}-{article}-{system}",
                "group_id": f"{name}-{article}",
                "system_id": f"s{system}",
            }
            text |= {"source": f"Article {name} {article}.", "output": f"Summary {system} of {article}."}
            rows.append(text | {"human": {"coherence": scores}})
            said = int(np.clip(round(quality + noise * rng.normal()), 1, 5))
            answers.append({"example_id": text["example_id"], "text": str(said)})
    write_rows(folder / f"{name}.jsonl", rows)
    return answers


CALIBRATED = ("judge=replay", "assistant=none", "decoding=[greedy]", "ranges=[[1,5]]", "data=jsonl")
CALIBRATED += ("dimensions=[coherence]", "logger=none", *FAST[:2])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a card of a replayed judge, labels of several kinds, and answers to all of them."""
    folder = tmp_path_factory.mktemp("gate")
    (folder / "judge").mkdir()
    good = labelled(folder / "judge", "calibrated", 30, 0) + labelled(folder / "judge", "labels", 24, 1)
    good += labelled(folder, "few", 5, 2)
    write_rows(folder / "judge" / "answers.jsonl", good)
    write_rows(folder / "worse.jsonl", labelled(folder / "judge", "labels", 24, 1, noise=4.0))
    write_rows(folder / "silent.jsonl", [{**row, "text": "I cannot say."} for row in good])
    texts = ("data.path=judge/calibrated.jsonl", "data.scale=[1,5]", "run_dir=run")
    run_in(folder, calibrate_main, *CALIBRATED, "judge.path=judge/answers.jsonl", *texts)
    (folder / "judge" / "judge_card.yaml").write_text((folder / "run" / "judge_card.yaml").read_text())
    return folder


@pytest.fixture
def gate(place, monkeypatch, called):
    """`python -m judgebench gate` in this process: arguments -> (exit code, stdout, stderr)."""
    monkeypatch.chdir(place)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return partial(called, gate_main, "card=judge/judge_card.yaml", *FAST, mistaken=True)


def cases(path: str) -> dict[str, str]:
    """Testcase -> its outcome, of a file that is as the JUnit schema says: names, counts, one outcome at most."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites"
    (suite,) = root
    tests = suite.findall("testcase")
    assert [child.tag for child in suite] == ["testcase"] * len(tests) + ["system-out"]
    for node in (root, suite):
        counts = [node.get(name) for name in ("tests", "failures", "errors")]
        assert counts == [str(len(found)) for found in (tests, suite.findall("*/failure"), suite.findall("*/error"))]
    for test in tests:
        assert set(test.attrib) == {"name", "classname", "time"}
        assert [child.tag for child in test] in (["failure"], ["error"], ["system-out"])
        assert set(test[0].attrib) == ({"message", "type"} if test[0].tag != "system-out" else set())
    return {test.get("classname", "").removeprefix("judgebench.gate."): test[0].tag for test in tests}


def test_a_judge_that_has_not_changed_passes_on_other_labels(gate, place, monkeypatch):
    (place / "summary.md").write_text("Earlier.\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    asked = "require={order_texts: with_care, spearman_low: 0.3, error_high: 1.2, failed: 0, pairs: 0.6}"
    code, out, err = gate("data.path=judge/labels.jsonl", asked, "junit=gate.xml")
    assert code == 0, out + err
    assert len(out.splitlines()) <= 24
    assert "Gate: passed." in out
    said = r"With these 24 groups half of such gates notice a fall of 0\.\d\d of Spearman; "
    assert re.match(rf"{said}a fall of 0.05 of Spearman takes \d[\d,]*, here and on the card\.\n", out), "before all"
    assert "96 texts of 24 groups" in out
    assert list(cases("gate.xml").values()) == ["system-out"] * 8, "five requirements, and drift of three figures"
    summary = (place / "summary.md").read_text()
    assert re.search(said, summary)
    assert summary.startswith("Earlier.\n### Judge gate: passed\n")
    assert "| spearman_low | at least 0.3 | passed | 0." in summary
    known = JudgeCard.read(place / "judge" / "judge_card.yaml")
    run = pd.read_parquet(place / "gate" / "scores.parquet")
    error = np.abs(known.estimate(run["score"].to_numpy()) - run["human"]).mean()
    assert f"{error:.2f} here" in re.search(r"drift_error.*", out)[0]


def test_texts_that_made_the_card_are_known_by_themselves(gate, place):
    files = {name: (place / "judge" / f"{name}.jsonl").read_text().splitlines() for name in ("calibrated", "labels")}
    mixed = [json.loads(line) for line in [*files["calibrated"], *files["labels"][:4]]]
    write_rows(place / "mixed.jsonl", [{**row, "source": f"{row['source']} "} for row in mixed[::-1]])
    code, out, err = gate("data.path=mixed.jsonl", "drift=off", "require={failed: 0}")
    assert code == 0, out + err
    assert "drift_" not in out
    assert "96.8 % of these texts made the card: its verdicts flatter it here" in out


def test_a_sample_of_digests_tells_the_share_of_many_texts():
    texts = [Example(str(i), "g", "s", "One.", f"Text {i}.", {}) for i in range(30_000)]
    made_by = card(data={"texts": text_digests(SimpleNamespace(examples=texts[:20_000]))[:2000]})
    assert share_in_card(made_by, SimpleNamespace(examples=texts[10_000:])) == pytest.approx(0.5, abs=0.05)
    assert share_in_card(made_by, SimpleNamespace(examples=texts[:20_000])) == 1
    assert share_in_card(made_by, SimpleNamespace(examples=texts[20_000:])) == pytest.approx(0, abs=0.01)
    rows = pd.DataFrame({"example_id": map(str, range(3000)), "score": np.arange(3000) / 3})
    scores = scores_of(SimpleNamespace(examples=texts[:3000]), rows)
    assert len(scores) == 2000
    assert np.mean(list(scores.values())) == pytest.approx(500, abs=40), "at random"


def test_a_judge_that_has_become_worse_fails_and_the_drift_says_by_how_much(gate):
    changed = ("data.path=judge/labels.jsonl", "+judge.path=worse.jsonl", "junit=worse.xml", "summary=worse.md")
    code, out, err = gate(*changed)
    assert code == 1, out + err
    found = cases("worse.xml")
    assert found["order_texts"] == found["drift_spearman"] == found["drift_error"] == "failure"
    assert "p < .001" in out
    assert "| drift_error | within chance | failed |" in Path("worse.md").read_text()
    code, out, _ = gate(*changed, "require={failed: 0}", "drift=warn")
    assert code == 0
    assert re.search(r"warning +drift_spearman: within chance", out)


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ([], 0, "+0.00 [+0.00, +0.00], p 1.000"),
        (["+judge.path=changed.jsonl"], 1, "p < .001"),
    ],
)
def test_texts_that_made_the_card_are_compared_in_pairs(gate, place, changed, code, said):
    answers = read_rows(place / "judge" / "answers.jsonl")
    rng = np.random.default_rng(0)
    others = [{**row, "text": row["text"] if rng.random() < 0.5 else str(rng.integers(1, 6))} for row in answers]
    write_rows(place / "changed.jsonl", others)
    asked = ("data.path=judge/calibrated.jsonl", "paired=card", "require={failed: 0}", "junit=on.xml", "summary=on.md")
    found, out, err = gate(*asked, *changed)
    assert found == code, out + err
    change = re.search(r"drift_spearman.*", out)[0]
    assert "here, on the same 120 texts: " in change
    assert said in change
    assert "These texts made the card: its verdicts flatter it here.\n" in out
    for file in ("on.xml", "on.md"):
        assert "here, on the same 120 texts: " in Path(file).read_text()
        assert "With these 30 groups half of such gates notice a fall of " in Path(file).read_text()


@pytest.mark.parametrize(
    ("scored", "sentence"),
    [
        (True, "the card has scored 20 of these texts, of 5 groups, and a comparison in pairs takes 6; give the texts"),
        (False, "the card holds no scores of its texts, for its decoding has learned from them; leave paired out"),
    ],
)
def test_texts_that_cannot_be_compared_in_pairs_are_refused(gate, place, scored, sentence):
    lines = [(place / "judge" / f"{name}.jsonl").read_text().splitlines() for name in ("calibrated", "labels")]
    write_rows(place / "some.jsonl", [json.loads(line) for line in [*lines[0][:20], *lines[1]]])
    known = JudgeCard.read(place / "judge" / "judge_card.yaml")
    replace(known, scores=known.scores if scored else None).write(place / "some.yaml")
    code, out, err = gate("card=some.yaml", "data.path=some.jsonl", "paired=card", "require={failed: 0}")
    assert (code, sentence in " ".join(err.split())) == (2, True), out + err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["data.path=few.jsonl"], "5 rated groups; it takes 10"),
        (["data.path=judge/labels.jsonl", "+judge.path=silent.jsonl"], "no answer could be read"),
        (["data.path=judge/labels.jsonl", "+judge.path=nowhere.jsonl"], "there is no such file"),
    ],
)
def test_where_nothing_can_be_measured_the_gate_neither_passes_nor_fails(gate, arguments, reason):
    code, out, err = gate(*arguments, "junit=none.xml", "summary=none.md")
    assert (code, reason in " ".join(f"{out} {err}".split())) == (2, True), out + err
    assert set(cases("none.xml").values()) == {"error"}
    assert "could not be measured" in Path("none.md").read_text()
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["require={order_txts: yes}"], "require.order_txts is unknown; require.order_texts is the nearest"),
        (["require={order_texts: no, spearman: high}"], "require.order_texts: 'no' is not one of yes, with_care"),
        (["require={spearman: nan}"], "require.spearman: nan is not a number"),
        (["drift=perhaps"], "drift: 'perhaps' should be 'fail', 'warn' or 'off'"),
        (["data.scale=[0,10]"], "it was calibrated for coherence on a scale of 1 to 5"),
        (["junit=judge/labels.jsonl/gate.xml"], "cannot be written"),
    ],
)
def test_mistakes_are_sentences(gate, arguments, sentence):
    code, out, err = gate("data.path=judge/labels.jsonl", *arguments)
    assert (code, sentence in err, "Traceback" in err) == (2, True, False), out + err


def test_a_card_asks_for_its_own_verdicts():
    uses = {"order_texts": "yes", "compare_systems": "with care", "report_scores": "no", "resist_attacks": "with care"}
    with pytest.raises(UserError, match="a card without a verdict"):
        requirements_of(None, card())
    found = [{"use": use, "verdict": verdict} for use, verdict in uses.items()]
    assert requirements_of(None, card(uses=found)) == {"order_texts": "yes", "compare_systems": "with_care"}
    assert requirements_of(None, card(uses=found, decision=DECISION))["decide"] == "with_care", "that it may decide"
    found.append({"use": "decide", "verdict": "yes"})
    assert requirements_of(None, card(uses=found, decision=DECISION))["decide"] == "yes"


def test_steady_is_not_required_of_a_judge_under_a_defense():
    defended = card(parts={**card().parts, "defenses": ["none", "sandwich"]})
    with pytest.raises(UserError, match=r"require\.steady: probes are asked without a defense"):
        requirements_of({"steady": "with_care"}, defended)
    assert requirements_of({"steady": "with_care"}, card()) == {"steady": "with_care"}


def change(name: str, p: float, most: float) -> Change:
    return Change(name, 0.7, 0.8 if name == "error" else 0.6, -0.3, 0.1, p, most=most)


@pytest.mark.parametrize(
    ("use", "verdict", "changes", "state", "said"),
    [
        ("order_texts", "with care", [change("spearman", 0.01, 0.3)], "failed", "yes on the card, Spearman is worse"),
        ("order_texts", "no", [change("spearman", 0.2, 0.09)], "passed", "a fall of Spearman by 0.09 is excluded"),
        ("order_texts", "with care", [change("spearman", 0.2, 0.25)], "not measured", "by 0.25, too few texts to tell"),
        ("order_texts", "no", [change("spearman", 0.2, 0.0), change("error", 0.01, 1)], "failed", "error is worse"),
        ("order_texts", "yes", [change("spearman", 0.2, 0.25)], "passed", "because"),
        ("decide", "no", [change("spearman", 0.2, 0.0), change("tnr", 0.2, 0.2)], "not measured", "of TNR by 0.20"),
        ("decide", "no", [change("spearman", 0.2, 0.0)], "passed", "Spearman by 0.00 is excluded"),
        ("report_scores", "no", [change("spearman", 0.2, 0.0)], "failed", "because"),
        ("order_texts", "with care", [], "failed", "because"),
    ],
)
def test_a_verdict_of_the_cards_own_is_lower_by_more_than_chance_or_too_few_texts_tell(
    use, verdict, changes, state, said
):
    own = card(uses=[{"use": name, "verdict": "yes"} for name in ("order_texts", "decide")])
    judged = outcomes_of({use: "yes"}, [{"use": use, "verdict": verdict, "clause": "because"}], {})
    (found,) = by_changes(judged, own, changes)
    assert (found.state, said in found.reason) == (state, True), found


def test_uses_that_are_not_required_are_said_with_both_verdicts():
    own = card(uses=[{"use": "order_texts", "verdict": "yes"}, {"use": "decide", "verdict": "no"}])
    here = {"order_texts": "no", "decide": "no", "resist_attacks": "not measured"}
    verdict = [{"use": use, "verdict": found} for use, found in here.items()]
    assert not_required({"order_texts": "yes"}, own, verdict) == "Not required: decide (no on the card, no here)."
    assert not_required({"order_texts": "yes", "decide": "yes"}, own, verdict) == ""


@pytest.mark.parametrize(
    ("verdict", "yes", "with_care"),
    [
        ("yes", "passed", "passed"),
        ("with care", "failed", "passed"),
        ("no", "failed", "failed"),
        ("too few texts", "not measured", "not measured"),
        ("not measured", "not measured", "not measured"),
    ],
)
def test_a_verdict_meets_a_requirement_that_is_no_better(verdict, yes, with_care):
    record = [{"use": "order_texts", "verdict": verdict, "clause": "because"}]
    outcomes = [outcomes_of({"order_texts": bound}, record, {})[0].state for bound in ("yes", "with_care")]
    assert outcomes == [yes, with_care]


def test_a_judge_that_decides_is_bounded_from_below():
    def asked(bound: float) -> dict:
        return {"decide": "with_care", "tpr_low": bound, "tnr": bound, "kappa": bound, "pass_rate_high": bound}

    with pytest.raises(UserError, match=r"require\.tpr_low: the card does not say pass or fail"):
        requirements_of(asked(0.6), card())
    deciding = card(decision=DECISION)
    assert requirements_of(asked(0.6), deciding) == asked(0.6)
    decision = dict.fromkeys((*OF_DECISIONS, "rate", "rate_low", "rate_high"), 0.7)
    decision["rates"] = [decision]
    metric = dict.fromkeys(("spearman", "spearman_low", "spearman_high"), 0.5)
    metric |= {"constant": False, "failed_share": 0.0, "groups": 20}
    figures = figures_of(deciding, [], metric, pd.DataFrame({"status": [], "score": []}), decision)
    verdict = [{"use": "decide", "verdict": "with care", "clause": "because"}]
    for bound, state in ((0.6, "passed"), (0.9, "failed")):
        outcomes = outcomes_of(asked(bound), verdict, figures)
        assert [outcome.state for outcome in outcomes] == ["passed"] + [state] * 4


@pytest.fixture(scope="module")
def deciding(tmp_path_factory):
    """A folder with a card of labels that are pass or fail, and such labels of other articles."""
    folder = tmp_path_factory.mktemp("deciding")
    answers = labelled(folder, "calibrated", 30, 0, noise=0.3) + labelled(folder, "graded", 24, 1, noise=0.3)
    write_rows(folder / "answers.jsonl", answers)
    for name, to in (("calibrated", "calibrated"), ("graded", "labels")):
        rows = read_rows(folder / f"{name}.jsonl")
        for row in rows:
            row["human"] = {"coherence": ["pass" if score > 3 else "fail" for score in row["human"]["coherence"]]}
        write_rows(folder / f"{to}.jsonl", rows)
    texts = ("judge.path=answers.jsonl", "data.path=calibrated.jsonl", "run_dir=run")
    run_in(folder, calibrate_main, *CALIBRATED, *texts)
    return folder


@pytest.fixture
def gate_here(called, monkeypatch):
    """The gate of a card that a run in the current folder has made."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return lambda run, *asked: called(gate_main, f"card={run}/judge_card.yaml", *asked, *FAST, mistaken=True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["require={tpr_low: 0.6, tnr_low: 0.6, kappa: 0.3, pass_rate: 0.2}"], 0, "passed +tpr_low: at least 0.6 +0."),
        (["require={tpr_low: 0.99, failed: 0}"], 1, "failed +tpr_low: at least 0.99 +0."),
        (["data.path=shares.jsonl", "require={decide: with_care}"], 2, "the card's judge says fail or pass, and these"),
    ],
)
def test_a_gate_of_pass_and_fail_takes_the_cards_pass_mark(deciding, gate_here, monkeypatch, arguments, code, said):
    monkeypatch.chdir(deciding)
    rows = read_rows("labels.jsonl")
    write_rows("shares.jsonl", [{**row, "human": {"coherence": i % 3 / 2}} for i, row in enumerate(rows)])
    found, out, err = gate_here("run", "data.path=labels.jsonl", "drift=off", *arguments)
    assert (found, bool(re.search(said, f"{out} {err}"))) == (code, True), out + err
    if code != 2:
        mark = JudgeCard.read("run/judge_card.yaml").decision["pass_mark"]
        records = json.loads(Path("gate/worth/decisions.json").read_text())
        assert {record["pass_mark"] for record in records if record["mark"] == "chosen mark"} == {mark}


def test_a_gate_takes_the_two_classes_of_its_card(deciding, called, gate_here, monkeypatch, tmp_path):
    """Its labels hold these classes; the command that calibrate prints need not name them."""
    monkeypatch.chdir(tmp_path)
    text = (deciding / "calibrated.jsonl").read_text()
    Path("labels.jsonl").write_text(text.replace('"fail"', '"not yet"').replace('"pass"', '"helpful"'))
    answers = f"judge.path={deciding / 'answers.jsonl'}"
    data = ("data.path=labels.jsonl", "data.classes=[not yet,helpful]")
    _, shown, _ = called(calibrate_main, *CALIBRATED, answers, *data, "run_dir=run")
    code, out, err = gate_here("run", "data.path=labels.jsonl", f"+{answers}")
    assert (code, bool(re.search("passed +decide: ", out))) == (0, True), out + err
    # one word for groups, and one for what it may decide, in both
    assert "articles" not in shown + out
    band = "No band of scores keeps mistakes below" in shown
    assert ("has no band of scores that it may decide" in out) == band


def test_a_judge_that_passes_everything_fails_by_its_tnr(deciding, gate_here, monkeypatch):
    monkeypatch.chdir(deciding)
    rows = read_rows("answers.jsonl")
    write_rows("always.jsonl", [row | {"text": "5"} for row in rows])
    asked = ("run", "data.path=labels.jsonl")
    code, out, err = gate_here(*asked, "check_models=false", "+judge.path=always.jsonl")
    assert code == 1, out + err
    assert re.search(
        r"failed +drift_tnr: within chance +0\.\d\d on the card, 0\.00 here: -0\.\d\d \[.*\], p < \.001", out
    )
    assert re.search(r"failed +decide: ", out)
    code, out, err = gate_here(*asked)
    assert code in (0, 2), f"it has not changed: {out + err}"
    assert not re.search("failed +drift", out)
    assert "half of such gates notice a fall of 0." in out
    assert re.search(r" of Spearman, of 0\.\d\d of TPR, of 0\.\d\d of TNR; a fall of 0.05 of Spearman takes", out)


def test_the_gate_is_not_green_for_a_judge_that_may_not_decide(deciding, called, gate_here, monkeypatch):
    """Its card's mark passes nearly all texts, so that its verdict on deciding is no."""
    monkeypatch.chdir(deciding)
    given = ("judge.path=answers.jsonl", "data.path=calibrated.jsonl", "costs.threshold=1.5", "run_dir=lenient")
    _, out, err = called(calibrate_main, *CALIBRATED, *given)
    assert re.search("decide +no ", out), out + err
    assert "It may not decide: a person must see every text." in out
    code, out, err = gate_here("lenient", "data.path=labels.jsonl")
    assert (code, bool(re.search("failed +decide: with care +no; ", out))) == (1, True), out + err
    code, out, err = gate_here("lenient", "data.path=labels.jsonl", "require={failed: 0}")
    assert code == 0, out + err
    assert re.search(r"Not required: decide \(no on the card, no here\), order texts \(", " ".join(out.split()))


def test_a_constant_here_is_no_spearman_that_is_known_for_sure():
    here = {"groups": 15, "spearman": 0.0, "spearman_low": 0.0, "spearman_high": 0.0}
    for value, reach, worse in ((0.4, 0.4, False), (0.7, 0.15, True)):
        before = {"groups": 15, "spearman": value, "spearman_low": value - reach, "spearman_high": value + reach}
        (change,) = changes_of(before, here)
        assert change.worse == worse, "a judge that says 1 of 15 texts may say it of none"


def test_a_card_without_intervals_is_compared_by_what_it_has_and_the_rest_is_said():
    said = "Not compared with the card: Spearman, the estimates' error, their bias, which"
    assert untested(card(), []).startswith(said)
    assert untested(card(), [change(name, 0.5, 0) for name in ("spearman", "error", "bias")]) == ""
    assert "TPR, TNR" in untested(card(decision=DECISION), [change("spearman", 0.5, 0)])


def test_a_change_is_worse_by_its_figures_own_direction():
    assert Change("spearman", 0.7, 0.4, -0.5, -0.1, 0.01).worse
    assert not Change("spearman", 0.4, 0.7, 0.1, 0.5, 0.01).worse
    assert not Change("error", 0.7, 0.4, -0.5, -0.1, 0.01).worse
    assert Change("bias", 0.0, -0.4, -0.5, -0.1, 0.01).worse
    assert not Change("bias", 0.0, -0.4, -0.8, 0.1, 0.06).worse


def simulated(rng: np.random.Generator, articles: int, shift: float = 0.0) -> pd.DataFrame:
    """Five texts an article, whose difficulty judge and humans share, and of which the judge has a taste of its own."""
    number = np.repeat(np.arange(articles), 5)
    quality = rng.normal(size=len(number)) + 0.5 * rng.normal(size=articles)[number]
    human = np.clip(np.round(3 + quality + 0.5 * rng.normal(size=len(number))), 1, 5)
    taste = 0.8 * rng.normal(size=len(number)) + 0.3 * rng.normal(size=articles)[number]
    score = np.clip(3 + 0.8 * quality + taste + shift, 1, 5)
    return pd.DataFrame({"score": score, "human": human, "group_id": number.astype(str), "status": "parsed"})


def measured(known: JudgeCard, rows: pd.DataFrame) -> dict[str, float | None]:
    clusters = Clusters.of(rows["group_id"].to_numpy(), 200, 0)
    pairs = DistinctPairs(rows["score"].to_numpy(), rows["human"].to_numpy(), clusters.number, clusters.count)
    metric = clusters.record({"spearman": pairs.spearman(clusters.weights)}) | {"constant": False, "failed_share": 0.0}
    metric |= {"groups": clusters.count}
    return figures_of(known, [], metric, rows, {}, resamples=200, seed=0)


def card_of(rows: pd.DataFrame) -> JudgeCard:
    """A card of these texts, with figures and estimate of its own."""
    sides = [rows[name].to_numpy() for name in ("score", "human", "group_id")]
    made = card(estimate=fit("linear", *sides[:2], ScoreRange(1, 5), None))
    errors = estimate_errors(Labelled(*sides, "linear", ScoreRange(1, 5), None, 0), 200)
    figures = errors | {name: value for name, value in measured(made, rows).items() if name.startswith("spearman")}
    return replace(made, figures={"test": figures | {"groups": rows["group_id"].nunique()}})


@cache
def rho(noise: float) -> float:
    """Spearman of 2,000 articles with so much noise in the judge's scores."""
    rows = simulated(np.random.default_rng(1), 2000)
    more = noise * np.random.default_rng(2).normal(size=len(rows))
    return rows["human"].corr(rows["score"] + more, method="spearman")


def worsened(rng: np.random.Generator, rows: pd.DataFrame, fall: float) -> pd.DataFrame:
    """The same, read with as much noise as lowers Spearman by so much."""
    sizes = np.arange(0, 8, 0.1)
    size = np.interp(fall, np.maximum.accumulate([rho(0) - rho(size) for size in sizes]), sizes)
    return rows.assign(score=rows["score"] + size * rng.normal(size=len(rows)))


def test_a_fall_as_large_as_is_promised_is_noticed_in_half_of_cases():
    """60 cards, each with other labels of a judge that has fallen by what its own sentence says."""
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        before = card_of(simulated(rng, 30))
        fall = float(re.search(r"a fall of ([\d.]+) of", noticed(before, 20, "articles"))[1])
        changes = changes_of(card_figures(before), measured(before, worsened(rng, simulated(rng, 20), fall)))
        found.append(any(change.worse for change in changes))
    assert 0.37 <= np.mean(found) <= 0.63


@pytest.mark.parametrize(
    ("noise", "fall", "low", "high"), [(0.0, 0.0, 0, 0), (0.05, 0.0, 0.02, 0.09), (0.0, 0.1, 0.3, 0.7)]
)
def test_a_fall_is_noticed_in_pairs_and_none_is_invented(noise, fall, low, high):
    """Of 20 articles: the same scores; scores with as much noise as before; scores worse by .1, which are noticed in
    one of five cases on other articles."""
    found = []
    for seed in range(100 if noise else 20):
        rng = np.random.default_rng(seed)
        rows = simulated(rng, 20)
        rows = rows.assign(example_id=rows.index.astype(str)).round(6)
        made = card(estimate=fit("linear", rows["score"], rows["human"], ScoreRange(1, 5), None))
        before = worsened(rng, rows, noise).round(6).set_index("example_id")["score"].to_dict()
        changes = paired_changes(made, worsened(rng, rows, noise + fall), before, resamples=200, seed=0)
        assert [change.texts for change in changes] == [100] * 3
        found.append(any(change.p < 0.05 for change in changes))
    assert low <= np.mean(found) <= high


def test_more_texts_of_a_low_rating_than_made_the_card_are_said():
    figures = {"low_share": 0.1, "low_share_low": 0.05, "low_share_high": 0.15}
    figures |= {"low_coverage": 0.5, "low_coverage_low": 0.4, "low_coverage_high": 0.6, "coverage": 0.9}
    texts = (np.tile([1.0, 4.0], 60), np.repeat(np.arange(30), 4).astype(str), 200, 0)
    made = card(scale=(1, 5), figures={"test": figures})
    assert more_low_rated(made, *texts) == (
        "Humans rate 50 % of these texts worse than the middle of the scale, and 10 % of the card's: its intervals of "
        "single texts hold 50 % of such, 90 % of all."
    )
    assert more_low_rated(made, np.full(120, 4.0), *texts[1:]) == ""
    assert more_low_rated(card(scale=(1, 5), figures={"test": figures | {"low_coverage_high": 0.95}}), *texts) == ""


@pytest.mark.parametrize(("shift", "low", "high"), [(0.0, 0.0, 0.094), (1.2, 0.8, 1.0)])
def test_drift_is_claimed_in_a_twentieth_of_sets_of_labels_that_have_none(shift, low, high):
    """100 cards of 30 articles, each with labels of 20 others: 5 % and two standard errors claim one at most; and most
    of a shift by 1.2."""
    claimed = []
    for seed in range(100 if shift == 0 else 20):
        rng = np.random.default_rng(seed)
        before = card_of(simulated(rng, 30))
        changes = changes_of(card_figures(before), measured(before, simulated(rng, 20, shift)))
        claimed.append(any(change.worse for change in changes))
    assert low <= np.mean(claimed) <= high


def test_the_file_for_github_runs_as_printed_without_torch(place, tmp_path):
    """Its steps of commands but for the installation, each by a shell that stops at an error, as GitHub's does."""
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    (workflow,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    steps = yaml.safe_load(workflow)["jobs"]["gate"]["steps"]
    commands = [step["run"] for step in steps if "run" in step and step["name"] != "Install"]
    assert len(commands) == 1
    # judgebench is in no package index: what is installed is the folder of a checkout
    (install,) = [step["run"] for step in steps if step.get("name") == "Install"]
    checkouts = [step["with"]["path"] for step in steps if "checkout" in step.get("uses", "") and "with" in step]
    assert install.split()[-1] in [f"./{path}" for path in checkouts]
    blocked = "class Blocked:\n    def find_spec(self, name, path=None, target=None):\n"
    blocked += "        if name in ('torch', 'lightning', 'transformers'):\n            raise ImportError(name)\n"
    (tmp_path / "sitecustomize.py").write_text(f"import sys\n\n\n{blocked}\n\nsys.meta_path.insert(0, Blocked())\n")
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    env |= {"PYTHONPATH": f"{tmp_path}:{ROOT}", "GITHUB_STEP_SUMMARY": f"{tmp_path}/summary.md"}
    for command in commands:
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=place, env=env, text=True,
                              capture_output=True, timeout=300, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    uploaded = steps[-1]["with"]["path"]
    assert {"gate", "gate.xml"} <= {path.name for path in place.glob(uploaded)}
    assert (place / "gate" / "report.html").is_file()
    assert "### Judge gate: passed" in (tmp_path / "summary.md").read_text()
    cached = next(step["with"]["path"] for step in steps if "cache" in step.get("uses", ""))
    assert yaml.safe_load((ROOT / "conf" / "gate.yaml").read_text())["store"] == cached


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ([], r"its judge is Qwen2.5-Coder-1.5B-Instruct \(SHA-256 \w+...\), which is not here at model.gguf; say where "
             r"its folder is, as \+judge.path=DIR; or give the judge's recorded readings .*, as readings=FILE"),
        (["judge=recorded"], "judge=recorded: a card has its own judge; .* as .judge.path=DIR .* with readings=FILE"),
        (["judge.path=DIR"], "judge.path: there is no key 'path' in judge; add it, as .judge.path=VALUE"),
    ],
)  # fmt: skip
def test_the_gate_of_a_recorded_judge_names_what_it_takes(called, monkeypatch, tmp_path, more, sentence):
    monkeypatch.chdir(tmp_path)
    earlier = ROOT / "tests" / "cards" / "judge_card_77ff865a.yaml"
    asked = (f"card={earlier}", "data=conala_sample", "require={failed: 0}", *FAST)
    code, _, err = called(gate_main, *asked, *more, mistaken=True)
    assert code == 2
    assert re.search(sentence, err), err


def test_a_server_that_is_away_is_no_judge_that_fails(called, monkeypatch, tmp_path, small_server):
    version = "small-1"

    def reply(handler, seen):  # a judge that likes a summary by its number
        said = str(1 + int(re.search(r"Summary (\d)", seen["body"]["messages"][0]["content"])[1]))
        message = {"role": "assistant", "content": said}
        handler.send(200, json.dumps({"model": version, "choices": [{"index": 0, "message": message}]}))

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    labelled(tmp_path, "first", 12, 0)
    labelled(tmp_path, "second", 12, 1)
    small_server.otherwise = reply
    served = (
        "judge=api",
        f"judge.url={small_server.url}",
        "judge.model=small",
        "judge.scores_from=text",
        "assistant=none",
    )
    data = ("data=jsonl", "data.path=first.jsonl", "data.scale=[1,5]", "dimensions=[coherence]", "ranges=[[1,5]]")
    called(calibrate_main, *served, *data, "decoding=[greedy]", "logger=none", *FAST[:2], "run_dir=run")
    command = ("card=run/judge_card.yaml", "data.path=second.jsonl", *FAST, "require={failed: 0}", "drift=off")
    assert called(gate_main, *command)[0] == 0
    asked = len(small_server.seen)
    assert called(gate_main, *command)[0] == 0
    assert len(small_server.seen) == asked, "what was answered is stored"
    # a new version of the model: the command that compares it with the card is named, and works
    version = "small-2"
    changed = (*command, "store=changed.sqlite")
    code, _, err = called(gate_main, *changed, mistaken=True)
    assert (code, "now says that it is small-2" in err) == (2, True), err
    again = shlex.split(re.search(r"compare it with the card: (.*)\.$", err.strip())[1])
    assert again == ["python", "-m", "judgebench", "gate", *changed, "check_models=false"]
    assert called(gate_main, *again[4:])[0] == 0
    small_server.otherwise = lambda handler, seen: handler.send(401, "{}")
    away = (*command, "store=other.sqlite", "junit=away.xml")
    code, out, err = called(gate_main, *away, mistaken=True)
    assert (code, "Traceback" in err) == (2, False), out + err
    assert cases("away.xml") == {"failed": "error"}


@pytest.mark.parametrize("last_digits", [0.0, 1e-16, -1e-16])
def test_a_judge_without_spread_that_is_the_same_has_not_changed(last_digits):
    """As one that always agrees with people: the order in which texts are added up moves the last digit."""
    figures = {"groups": 20, **dict.fromkeys(("spearman", "spearman_low", "spearman_high"), 0.9)}
    here = {**figures, **dict.fromkeys(("spearman", "spearman_low", "spearman_high"), 0.9 - last_digits)}
    changes = changes_of(figures, here)
    assert [change.name for change in changes] == ["spearman"]
    assert not changes[0].worse
    (fallen,) = changes_of(figures, figures | dict.fromkeys(("spearman", "spearman_low", "spearman_high"), 0.8))
    assert fallen.worse
