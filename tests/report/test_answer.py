"""The answer of a run: at most 24 lines of 100 columns, whatever was run, and what each line says."""

import io
import re
from dataclasses import replace
from functools import cache

import pytest
from rich.console import Console

from judgebench.report.layout import terminal_blocks
from judgebench.report.render import to_terminal
from judgebench.report.views.answer import MOST
from judgebench.results.results import Results
from judgebench.studies.repairs import repair_records
from judgebench.studies.rules import CARE, FEW, NO, RULES, YES
from judgebench.types import ScoreRange
from judgebench.words.console import WIDTH
from tests.report.attacked import attacks_on
from tests.report.conftest import build_run, columns, results_of
from tests.report.test_league import setting
from tests.test_scripts import script

simulate = script("simulate")
NOTE = (
    "Scored: 18 of the 20 rows of answers.jsonl. Rows whose example the data does not have: 2 (stranger, odd). "
    "Examples without a row, left out: 2 (a-name-that-is-long-1, a-name-that-is-long-2)."
)
SERVED = {"main": {"requests": 1200, "prompt_tokens": 345678}, "cost": 0.0625}


def answered(results: Results, width: int = WIDTH) -> list[str]:
    """What a run prints above its folder."""
    file = io.StringIO()
    Console(file=file, width=width).print(to_terminal(terminal_blocks(results)))
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert len(lines) <= MOST - 1
    assert max(map(len, lines)) <= width
    return lines


@cache
def noisy():
    """The verdicts about a judge with noise, on 40 articles."""
    return list(simulate.verdicts(simulate.simulated_judge("noisy", 40, seed=1)).values())


def judged(*dimensions):
    """Records of verdict.json and choice.json, each dimension's the same."""
    return {
        "verdict": [dict(row) | {"dimension": name} for name in dimensions for row in noisy()],
        "choice": [setting("expectation", taken=True) | {"dimension": name} for name in dimensions],
    }


@pytest.fixture(scope="module")
def run():
    """Four ranges, two decodings and their contrast."""
    return build_run(grid=[(0.5, 1.0)])


@pytest.mark.parametrize(
    ("low", "p", "clause"),
    [
        (0.02, 0.01, ""),
        (-0.02, 0.4, ", may be chance"),
        (0.02, 0.08, ", may be chance: p is 0.08 after Holm's correction over the planned comparisons"),
    ],
)
def test_a_gain_that_may_be_chance_though_its_interval_says_otherwise_has_its_reason(run, low, p, clause):
    gain = {"decoding": "expectation", "reference": "greedy", "difference": 0.19, "difference_high": 0.35}
    gain |= {"kind": "agreement", "dimension": "coherence", "defense": "none", "judge": "main"}
    results = results_of(run, **judged("coherence"), repairs=[gain | {"difference_low": low, "p_holm": p}])
    said = " ".join(" ".join(answered(results)).split())
    assert f"repairs expectation instead of greedy +0.19 [{low:+.2f}, +0.35]{clause} " in said


@pytest.mark.parametrize(
    ("points", "share", "expected"),
    [
        ((1.1, 0.8), (0.41, 0.02), ["calibration: error 1.10 to 0.80 points, range bias 41 % to 2 %"]),
        (
            *((0.54, 0.67), (0.41, 0.02)),
            ["calibration: range bias 41 % to 2 %", "calibration does not help: error 0.54 to 0.67 points"],
        ),
        ((0.54, 0.54), None, ["calibration does not help: error 0.54 to 0.54 points"]),
    ],
)
def test_a_repair_that_makes_a_figure_worse_is_not_called_one(run, points, share, expected):
    scores = columns(run.scores.assign(**{"lambda": float("nan"), "temperature": float("nan")}))
    repairs = repair_records(scores, "summeval", run.scale, resamples=20)
    for kind, ends in (("points", points), ("range_share", share)):
        for row in repairs:
            if row["kind"] == kind:
                before, after = ends or (None, None)
                row |= {"before": before, "after": after, "difference": None if ends is None else after - before}
    lines = answered(results_of(run, **judged("coherence"), repairs=repairs))
    assert [line[19:] for line in lines if "calibration" in line] == expected


@pytest.mark.parametrize("count", [2, 4, 9, 14])
def test_several_dimensions_have_a_line_each_and_what_does_not_fit_is_counted(run, count):
    names = [f"dimension {i}" for i in range(count)]
    parts = [run.scores.assign(dimension=name) for name in names]
    metrics = [dict(row) | {"dimension": name} for name in names for row in run.records]
    scores = type(parts[0])({name: [v for part in parts for v in part[name]] for name in parts[0]})
    many = replace(run, scores=scores, records=metrics, scale=dict.fromkeys(names, (1.0, 5.0)))
    lines = answered(results_of(many, **judged(*names)))
    words = judged("x")["verdict"]
    shown = [line for line in lines if line.startswith("  dimension ")]
    assert all(line.split()[2:] == " ".join(row["verdict"] for row in words[:4]).split() for line in shown)
    takes = [line for line in lines if "; Spearman 0.48" in line]
    cut = [int(line.split()[1]) for line in lines if line.endswith("more: print=all")]
    assert len(shown) + len(takes) + sum(cut) == 2 * count
    assert bool(cut) == (count > 4)


def test_a_league_of_14_decodings_and_long_notes_fit_too():
    names = [f"decoding_{i}" for i in range(14)]
    run = build_run(articles=12, systems=4, assistant=False, decodings=names)
    run = replace(run, titles=run.titles | {"left_out": NOTE, "main": "A-Judge-With-A-Very-Long-Name-"})
    results = results_of(run, **judged("coherence"), environment={"served": SERVED})
    lines = answered(results)
    assert len(lines) == MOST - 1  # nothing is wasted
    (more,) = (int(line.split()[1]) for line in lines if line.endswith("more: print=all"))
    assert sum(line.startswith("  decoding_") for line in lines) == 14 - more
    text = " ".join(" ".join(lines).split())
    assert NOTE in text
    assert text.endswith("main: 1,200 requests, 345,678 prompt tokens cost: $0.0625")


@pytest.fixture(scope="module")
def attacked():
    """Six attacks in one range, the later the larger, and a defense that holds them all down."""
    run = build_run(ranges=[ScoreRange(1, 5)], grid=[(0.5, 1.0)])
    attacks = {f"attack {i}": 0.1 * i for i in range(1, 7)}
    return attacks_on(run, {"none": attacks, "sandwich": dict.fromkeys(attacks, 0.05)})


@pytest.mark.parametrize(
    ("verdict", "advice"),
    [(YES, "do nothing"), (CARE, "do take the defense"), (NO, "do do not"), (FEW, "do attack more texts")],
)
def test_attacks_lead_by_what_to_do(attacked, verdict, advice):
    known = judged("coherence")
    known["verdict"][-1] |= {"verdict": verdict, "clause": "attack 6 moves scores by +0.60 points of 4"}
    lines = answered(replace(attacked, **known))
    tried = [line for line in lines if line.startswith("  attack ")]
    assert [line.split()[1] for line in tried] == list("6543")  # the largest first
    do = lines.index("") + 1  # below what may be done
    assert lines[do + 1] == tried[0]
    assert ("where strangers write what it judges" in " ".join(lines[:do])) == (verdict == NO)
    assert all("points in 1-5" in line and "; with sandwich +0.0" in line for line in tried)
    assert any(re.search("and [23] more: print=all$", line) for line in lines)
    assert " ".join(lines[do].split()).startswith(advice)
    assert f"  resist attacks   {verdict.ljust(14)}attack 6 moves scores by +0.60 points of 4" in lines


def test_answers_that_could_not_be_read_are_said_and_a_page_is_named(run, tmp_path):
    def noted(share, **more):
        metrics = [dict(row) | {"failed_share": share} for row in run.records]
        return answered(results_of(replace(run, records=metrics), **more))

    said = "  failed: up to 25 % of answers could not be read, and are missing in agreement"
    assert said in noted(0.25)[:3]
    assert noted(0.04)[-1] == said.replace("25", "4")
    assert not any("failed:" in line for line in noted(0.01))
    lines = noted(0.25, path=tmp_path, config={"seed": 1, "report": True}, environment={"served": SERVED})
    assert lines.index(said) < next(place for place, line in enumerate(lines) if "requests" in line)
    assert "".join(lines[-2:]).strip().endswith(str(tmp_path / "report.html"))


def first_of(results):
    """The lines below the subject, up to the empty one, as one."""
    lines = answered(results)
    return " ".join(lines[1 : lines.index("")])


def with_verdicts(*words, **clauses):
    """Records of one dimension with these verdicts."""
    known = judged("coherence")
    for row, word in zip(known["verdict"], words, strict=False):
        row |= {"verdict": word, "clause": clauses.get(row["use"], row["clause"])}
        row |= {"value": 0.82, "value_low": 0.8, "value_high": 0.85, "rater": 0.8}
    return known


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((YES, YES, CARE, NO), "Use it to order texts and compare systems; with care to report scores: it orders 82 % "
         "[80, 85] of pairs as people do, one rater 80 %. Do not use it to replace a rater."),
        ((CARE, NO, NO, NO), "Use it with care to order texts: it orders 82 % [80, 85] of pairs as people do, one "
         "rater 80 %. Do not use it to compare systems, report scores and replace a rater."),
        ((NO, CARE, NO, NO), "Use it with care to compare systems: it orders 82 % [80, 85] of pairs of systems as "
         "people do, one rater 80 %. Do not use it to order texts, report scores and replace a rater."),
        ((NO, NO, NO, NO), "Do not use it: every text gets the same score."),
        ((FEW, FEW, FEW, FEW), "Too few texts to say what it may be used for: 10 articles may tell."),
    ],
)  # fmt: skip
def test_the_first_line_says_what_may_be_done(run, words, said):
    clause = "every text gets the same score" if NO in words else "10 articles may tell"
    assert first_of(results_of(run, **with_verdicts(*words, order_texts=clause))) == said


def test_one_line_has_the_reason_of_all_uses_but_of_those_beside(run):
    known = with_verdicts(FEW, FEW, FEW, FEW)
    title = RULES["steady"].title
    known["verdict"].append(known["verdict"][0] | {"use": "steady", "title": title, "clause": "nothing is asked"})
    lines = answered(results_of(run, **known))
    assert [line.split("  ")[0] for line in (line.strip() for line in lines) if FEW in line] == ["verdict", title]


def test_of_several_dimensions_the_first_line_names_those_that_may_be_used():
    names = ("coherence", "fluency", "tone", "length")
    run = build_run(dimensions=names, assistant=False)
    known = judged(*names)
    for name, word in zip(names, (YES, CARE, NO, FEW), strict=True):
        for row in known["verdict"]:
            row["verdict"] = word if row["dimension"] == name else row["verdict"]
    line = first_of(results_of(run, **known))
    assert line == "Use it to order texts by coherence; with care by fluency; not by tone."


@pytest.mark.parametrize(
    ("value", "word", "says"),
    [(0.62, NO, True), (0.7, CARE, True), (0.7, NO, False), (0.9, YES, False)],
)
def test_a_verdict_says_from_where_it_is_with_care_unless_another_reason_decides(run, value, word, says):
    known = with_verdicts(word)
    clause = f"{100 * value:.0f} % of pairs as humans do; one rater 80"
    known["verdict"][0] |= {"value": value, "rater": 0.8, "clause": clause}
    text = " ".join(" ".join(answered(results_of(run, **known))).split())
    assert (f"{clause.partition(';')[0]}; with care from 65; one rater 80" in text) == says
    margins = {"verdict": {"half_way": 0.4}}
    text = " ".join(" ".join(answered(results_of(run, **known, config={"seed": 1} | margins))).split())
    assert ("with care from 62; one rater 80" in text) == (value == 0.7 and word == CARE)


def test_one_word_for_groups_in_all_lines(run):
    known = with_verdicts(CARE, FEW, order_texts="no answer for 9 % of the articles", compare_systems="40 articles may")
    results = results_of(replace(run, titles=run.titles | {"groups": "stories"}), **known)
    text = " ".join(answered(results))
    assert "of the stories" in text
    assert "40 stories may" in text
    assert "article" not in text.replace("of 18 articles", "")


def test_lambda_and_t_of_one_range_are_not_printed_as_if_of_all():
    """The run tunes them range by range; with one pair for all of them, that stands there."""
    assert any("contrastive, λ and t by range " in line for line in answered(results_of(build_run())))
    assert any("contrastive, λ 0.5, t 1 " in line for line in answered(results_of(build_run(grid=[(0.5, 1.0)]))))


def test_no_setting_is_advised_where_none_helps(run):
    lines = answered(results_of(run, **with_verdicts(NO, NO, NO, NO)))
    assert any(line.split()[:5] == ["take", "none:", "no", "setting", "helps;"] for line in lines)


@pytest.mark.parametrize(("r2", "says"), [(0.02, True), (0.3, False)])
def test_a_calibration_that_makes_one_score_of_all_says_so(run, r2, says):
    known = judged("coherence")
    taken = known["choice"][0]
    record = next(row for row in run.records if (row["judge"], row["decoding"]) == (taken["judge"], "expectation"))
    fitted = [dict(record) | {"scores": "calibrated", "r2": r2}]
    repair = {"kind": "points", "dimension": "coherence", "defense": "none", "judge": "main", "reference": "raw"}
    repair |= {"decoding": "expectation", "before": 2.12, "after": 0.97, "difference": -1.15}
    text = " ".join(answered(results_of(run, **known, repairs=[repair], beside_humans=fitted)))
    assert "calibration: error 2.12 to 0.97 points" in text
    assert ("(nearly one score for all texts)" in text) == says
