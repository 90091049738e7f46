"""The answer of a run: at most 24 lines of 100 columns, whatever was run, and what each line says."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from judgebench.report.layout import terminal_blocks
from judgebench.report.render import WIDTH, to_terminal
from judgebench.report.views.answer import MOST
from judgebench.results.results import Results
from judgebench.stats.repairs import repair_records
from judgebench.stats.verdict import CARE, FEW, NO, YES
from judgebench.types import ScoreRange
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


def judged(*dimensions, articles=40, judge="noisy"):
    """Records of verdict.json and choice.json, each dimension's the same."""
    verdict = simulate.verdicts(simulate.simulated_judge(judge, articles, seed=1)).values()
    return {
        "verdict": [dict(row) | {"dimension": name} for name in dimensions for row in verdict],
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
    run = replace(run, titles=run.titles | {"left_out": NOTE, "main": "A-Judge-With-A-Very-Long-Name-" * 2})
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
def test_attacks_lead_and_end_in_what_to_do(attacked, verdict, advice):
    known = judged("coherence")
    known["verdict"][-1] |= {"verdict": verdict, "clause": "attack 6 moves scores by +0.60 points of 4"}
    lines = answered(replace(attacked, **known))
    tried = [line for line in lines if line.startswith("  attack ")]
    assert [line.split()[1] for line in tried] == list("6543")  # the largest first
    assert lines[lines.index("") + 1] == tried[0]  # below what may be done
    assert ("where strangers write what it judges" in " ".join(lines[:4])) == (verdict == NO)
    assert all("points in 1-5" in line and "; with sandwich +0.0" in line for line in tried)
    (more,) = (place for place, line in enumerate(lines) if line.endswith("and 2 more: print=all"))
    assert " ".join(lines[more + 1].split()).startswith(advice)
    assert f"  resist attacks   {verdict.ljust(14)}attack 6 moves scores by +0.60 points of 4" in lines


def test_answers_that_could_not_be_read_are_said_and_a_page_is_named(run, tmp_path):
    def noted(share, **more):
        metrics = [dict(row) | {"failed_share": share} for row in run.records]
        return answered(results_of(replace(run, records=metrics), **more))

    said = "  failed: up to 25 % of answers could not be read, and are missing in agreement"
    assert noted(0.25)[-1] == said
    assert not any("failed:" in line for line in noted(0.01))
    lines = noted(0.25, path=tmp_path, config={"seed": 1, "report": True}, environment={"served": SERVED})
    assert lines.index(said) < next(place for place, line in enumerate(lines) if "requests" in line)
    assert "".join(lines[-2:]).strip().endswith(str(tmp_path / "report.html"))
