"""The audit: planted effects by each instrument, reasons for what is missing, and the verdict that follows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from judgebench.settings.margins import Margins
from judgebench.studies.audit import Probing, audit_records, changed_prompts, changed_scores
from judgebench.studies.findings import JudgeFindings
from judgebench.studies.probes import Probe
from judgebench.studies.rules import CARE, FEW, NO, UNMEASURED, YES
from judgebench.studies.scores import JudgeScores, Scores, ScoreSeries
from judgebench.studies.varying import factors_of, family_of
from judgebench.studies.verdict_steady import steady_verdict
from judgebench.types import PARSED, Example

CELL = ScoreSeries("test", "quality", 0.0, 1.0, 0.1, "none", "none", "main", "expectation", None, None)
TYPOS = Probe("typos", condition=("probe typos", "none"))


def planted(marked: float = 0.0, own: float = 0.0, articles: int = 60, seed: int = 0):
    """A judge that follows people on six systems an article, moved by Markdown and by its own family, and its texts."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(articles), 6)
    count = len(groups)
    quality = 0.5 + rng.normal(0, 0.2, count)
    markdown = rng.random(count) < 0.5
    mine = np.tile(np.arange(6), articles) < 2
    ratings = quality[:, None] + rng.normal(0, 0.1, (count, 3))
    scores = quality + marked * markdown + own * mine + rng.normal(0, 0.08, count)
    systems = np.tile(["qwen-a", "qwen-b", "llama-a", "llama-b", "gpt-a", "gpt-b"], articles)
    examples = []
    for row in range(count):
        words = "word " * int(rng.integers(20, 60))
        text = f"**{words.strip()}**" if markdown[row] else words
        language = {"language": ("en", "de")[int(groups[row]) % 2]}
        examples.append(Example(str(row), str(groups[row]), systems[row], "", text, {}, segments=language))
    names = np.array([example.example_id for example in examples])
    sample = JudgeScores(
        "planted", CELL, names, groups.astype(str), systems, scores, ratings, ["a", "b", "c"], (0.0, 1.0), resamples=50
    )
    return sample, examples


def by_factor(records):
    return {(record["factor"], record["level"]): record for record in records}


def with_probe(sample, examples, moved, share=1.0):
    """What a probe gives that moves the scores of a share of the texts."""
    changed = sample.names[: int(share * len(sample.names))]
    columns = {name: [value] * len(sample.names) for name, value in CELL.named.items()}
    columns |= {"attack": ["probe typos"] * len(sample.names), "example_id": sample.names, "group_id": sample.groups}
    columns |= {"system_id": sample.systems, "score": sample.scores + moved, "status": [PARSED] * len(sample.names)}
    columns |= {
        "human": sample.human,
        "lambda": [np.nan] * len(sample.names),
        "temperature": [np.nan] * len(sample.names),
    }
    return Probing(examples, "Qwen2.5", Scores.of(pd.DataFrame(columns)[: len(changed)]), [TYPOS])


def test_planted_effects_are_found_and_nothing_else():
    sample, examples = planted(marked=0.1, own=0.08)
    records = by_factor(audit_records([sample], Probing(examples, "Qwen2.5-7B")))
    told = {name for name, record in records.items() if record["p_holm"] is not None and record["p_holm"] <= 0.05}
    assert told == {("format", "Markdown"), ("family", "qwen (its own), not others")}
    for name, truth in {("format", "Markdown"): 0.1, ("family", "qwen (its own), not others"): 0.08}.items():
        record = records[name]
        assert record["effect_low"] <= truth <= record["effect_high"]
        assert record["ratings"] == "several"
        assert record["groups"] == 60
    assert ("language", "de, not en") in records or ("language", "en, not de") in records
    assert records["format", "Markdown"]["share"] > records["length", "twice the words"]["share"]


def test_two_ranges_and_probes_are_paired():
    sample, examples = planted()
    other = replace(sample, cell=CELL._replace(range_max=2.0), scores=2 * (sample.scores + 0.05))
    records = by_factor(audit_records([sample, other], with_probe(sample, examples, -0.03, share=0.5)))
    ranges = records["score range", "0.0-2.0 by 0.1, not 0.0-1.0 by 0.1"]
    assert ranges["effect"] == pytest.approx(0.05)
    assert ranges["p"] == 0
    probe = records["typos", "in range 0.0-1.0 by 0.1"]
    assert probe["effect"] == pytest.approx(-0.03)
    assert probe["texts"] == 180
    assert probe["groups"] == 30
    spread = np.var(np.concatenate([sample.scores[:180], sample.scores[:180] - 0.03]))
    assert probe["share"] == pytest.approx(0.03**2 / 4 / spread)


def test_what_is_missing_has_its_reason():
    sample, examples = planted()
    plain = [replace(example, output="", segments={}, system_id="s") for example in examples]
    records = audit_records([sample], Probing(plain, "a judge", probes=[TYPOS], reason="it is recorded"))
    reasons = {record["factor"]: record["reason"] for record in records if record["effect"] is None}
    assert reasons["language"].startswith("nothing in the data says it")
    assert reasons["length and format"] == "the texts are not at hand"
    assert reasons["typos"] == "it is recorded"
    assert reasons["family"].startswith("nothing in the data says it")
    assert {"score range", "order of a pair", "same prompt again"} <= reasons.keys()
    few = sample.names.astype(int) < 30  # five articles
    small = replace(
        sample, **{name: getattr(sample, name)[few] for name in ("names", "groups", "systems", "scores", "ratings")}
    )
    assert "too few rated groups" in audit_records([small], Probing(examples, "Qwen2.5"))[0]["reason"]


def test_a_probe_that_was_not_asked_or_not_answered_has_its_reason():
    sample, examples = planted()
    defended = replace(sample, cell=CELL._replace(defense="sandwich"))
    asked = by_factor(audit_records([defended], Probing(examples, "Qwen2.5", probes=[TYPOS])))
    assert asked["typos", None]["reason"] == "probes are asked without a defense"
    probing = Probing(examples, "Qwen2.5", probes=[TYPOS], changed={TYPOS.condition})
    unread = by_factor(audit_records([sample], probing))
    assert unread["typos", None]["reason"] == "no answer to it could be read"


def test_what_cannot_be_told_apart_is_not_told():
    sample, examples = planted()
    twice = [replace(one, segments={**one.segments, "tongue": one.segments["language"]}) for one in examples]
    records = [one for one in audit_records([sample], Probing(twice, "Qwen2.5")) if one["factor"] == "tongue"]
    assert [one["reason"] for one in records] == ["it is the same in all texts, or follows from what stands above"]
    rare = [
        replace(one, segments={"language": "fr" if one.group_id in ("10", "33", "50") else "en"}) for one in examples
    ]
    [record] = [one for one in audit_records([sample], Probing(rare, "Qwen2.5")) if one["factor"] == "language"]
    assert record["effect"] is None
    assert record["reason"].startswith("too few groups carry it")


def test_a_judge_that_follows_nobody_is_moved_by_nothing_unless_it_is():
    sample, examples = planted()
    noise = np.random.default_rng(2).random(len(sample.scores))
    blind = audit_records([replace(sample, scores=noise)], Probing(examples, "Qwen2.5"))
    assert not [one for one in blind if one["p_holm"] is not None and one["p_holm"] <= 0.05]
    constant = audit_records([replace(sample, scores=np.full(len(noise), 0.5))], Probing(examples, "Qwen2.5"))
    effects = [one for one in constant if one["p"] is not None]
    assert {(round(one["effect"], 9), one["p"]) for one in effects} == {(0, 1)}


def test_texts_whose_prompt_is_the_same_are_left_out():
    """Of a probe, and of a text whose answer could not be read."""
    keys = {"example_id": list("abc"), "dimension": "quality", "range_min": 1.0, "range_max": 5.0, "range_step": 1.0}
    clean = pd.DataFrame({**keys, "attack": "none", "defense": "none", "prompt": list("xyz")})
    probe = clean.assign(attack="probe typos", prompt=list("xYZ"))
    scores = probe.drop(columns="prompt").assign(
        split="test", judge="main", decoding="greedy", temperature=np.nan, group_id="g", system_id="s", score=3.0
    )
    scores = scores.assign(status=[PARSED, PARSED, "failed"], human=1.0, **{"lambda": np.nan})
    [cell] = (kept := changed_scores(scores, changed_prompts(pd.concat([clean, probe])))).cells
    assert kept.part(cell)["example_id"].tolist() == ["b"]
    assert cell.attack == "probe typos"


def test_labels_that_are_all_alike_have_a_reason_and_probes_an_effect():
    sample, examples = planted()
    alike = replace(sample, ratings=np.full_like(sample.ratings, 3.0), scale=(3.0, 3.0))
    records = audit_records([alike], with_probe(sample, examples, 0.1))
    assert [one["reason"] for one in records if one["instrument"] == "data"] == ["all human scores are alike"]
    [probe] = [one for one in records if one["p"] is not None]
    assert probe["effect"] == pytest.approx(0.1)
    assert probe["width"] == 1


def test_ranges_are_no_probes_for_the_verdict():
    sample, examples = planted(articles=200)
    other = replace(sample, cell=CELL._replace(range_max=2.0), scores=2 * sample.scores)
    records = audit_records([sample, other], Probing(examples, "Qwen2.5"))
    assert [one["factor"] for one in records if one["p"] is not None and one["instrument"] == "probes"]
    assert verdict_of(sample, records).verdict == CARE


def test_names_of_systems_and_judges_tell_families():
    assert [family_of(name) for name in ("GPT4-5shot", "meta-llama/Llama-3.1-8B", "phigaro", "M12")] == [
        "gpt",
        "llama",
        "",
        "",
    ]
    _, examples = planted()
    every = list(factors_of(examples, np.arange(len(examples)), "Mistral-7B"))
    levels = [factor.level for factor in every if factor.name == "family"]
    assert levels == ["llama, not qwen", "gpt, not qwen"]
    own, other = (one for one in factors_of(examples, np.arange(len(examples)), "llama-3") if one.name == "family")
    assert own.level == "gpt, not qwen"
    assert other.level == "llama (its own), not others"
    # the others differ among themselves alone
    assert abs(own.values.sum()) < 1e-9
    assert (own.values[other.values == 1] == 0).all()


def verdict_of(sample, audit, **margins):
    studies = dict.fromkeys(("metrics", "beside_humans", "systems", "humans", "forecasts"), ())
    return steady_verdict(JudgeFindings(sample, {**studies, "audit": audit}, Margins(**margins)), audit)


def test_steady_goes_by_the_interval_and_the_margin():
    sample, examples = planted(articles=200)
    quiet = audit_records([sample], with_probe(sample, examples, 0.01))
    assert verdict_of(sample, quiet).verdict == YES
    assert verdict_of(sample, quiet, steady=0.005).verdict in (NO, FEW)
    moved = verdict_of(sample, audit_records([sample], with_probe(sample, examples, 0.2)))
    assert moved.verdict == NO
    assert "typos" in moved.clause
    # the data alone do not say what would move it
    assert verdict_of(sample, audit_records([sample], Probing(examples, "Qwen2.5"))).verdict == CARE
    few, texts = planted(articles=30)
    narrow = verdict_of(few, audit_records([few], Probing(texts, "Qwen2.5")), steady=0.02)
    assert narrow.verdict == FEW
    assert narrow.needed > 30
    assert verdict_of(sample, []).verdict == UNMEASURED


def test_what_may_matter_is_shown_and_not_counted():
    sample, examples = planted(articles=200)
    probing = with_probe(sample, examples, 0.2)
    probing = replace(probing, probes=[TYPOS._replace(neutral=False)])
    assert verdict_of(sample, audit_records([sample], probing)).verdict == CARE
