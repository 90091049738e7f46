"""The real embedded judge under attack: what a run writes of it follows from its own scores."""

import json

import numpy as np
import pytest

from judgebench.report.views.phrases import phrase_frame
from judgebench.results.folder import RunFolder
from judgebench.results.results import Results
from judgebench.stats.robustness import Suffix, suffix_records

PHRASES = ("superb", "superb flawless")


ARTICLES = {
    "bridge": "The old bridge over the river was closed on Monday after engineers found cracks in two of its pillars.",
    "school": "A school in the north will teach in the mornings only, for its roof was torn off by last week's storm.",
    "market": "Farmers brought fewer apples to the market this year, and prices rose by a third within a month.",
    "library": "The city library opens its new reading room on Friday, after four years of building and one fire.",
}
SYSTEMS = {"copy": "{}", "wrong": "Nobody knows why. Sharks were seen."}


@pytest.fixture
def folder(judgebench, tmp_path, tiny_pair):
    rows = [
        {"source": article, "output": made.format(article), "human": {"coherence": 1.0 + (2 * i + j) % 5}}
        | {"example_id": f"{name}/{system}", "group_id": name, "system_id": system}
        for i, (name, article) in enumerate(ARTICLES.items())
        for j, (system, made) in enumerate(SYSTEMS.items())
    ]
    (tmp_path / "news.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for length, phrase in enumerate(PHRASES, 1):
        (tmp_path / f"adv_suffix_{length}.json").write_text(json.dumps({"phrase": phrase}))
    learned = ",".join(f"{{phrase_file: {tmp_path / f'adv_suffix_{i}.json'}}}" for i in (1, 2))
    fields = ("example_id", "group_id", "system_id")
    judgebench(
        *("data=jsonl", f"data.path={tmp_path / 'news.jsonl'}", "data.scale=[1,5]", "data.dev_share=0.25"),
        *(f"data.fields.{name}={name}" for name in fields),
        *("judge=local", f"judge.path={tiny_pair[0]}", "assistant=null_context", f"attacks=[none,dsi,{learned}]"),
        "decoding=[expectation,contrastive_expectation]",
        *("logger=none", "metrics.resamples=200", "metrics.seed=5", "run_dir=run"),
    )
    return RunFolder.open("run")


def test_differences_and_curves_are_those_of_the_scores(folder):
    scores = folder.read("scores")
    assert set(scores.attack) == {"none", "dsi", "adv_suffix_1", "adv_suffix_2"}
    test = scores[scores.split == "test"]

    def changes(attack, judge, decoding):
        one = test[(test.judge == judge) & (test.decoding == decoding)].set_index("example_id")
        clean = one[one.attack == "none"].score
        return one[one.attack == attack].score - clean, clean

    found = [r for r in folder.read("attack_differences") if r["split"] == "test" and r["statistic"] == "change"]
    assert [r["attack"] for r in found] == ["dsi", "adv_suffix_1", "adv_suffix_2"]
    for record in found:
        pair, _ = changes(record["attack"], "pair", "contrastive_expectation")
        main, _ = changes(record["attack"], "main", "expectation")
        assert record["difference"] == pytest.approx(pair.mean() - main.mean())
        assert record["low"] <= record["difference"] <= record["high"]
        assert (record["n"], record["groups"]) == (6, 3)
    spreads = [
        r for r in folder.read("attack_differences") if r["split"] == "test" and r["statistic"] == "standardized"
    ]
    for record in spreads:
        for side, who in (("first", ("pair", "contrastive_expectation")), ("second", ("main", "expectation"))):
            change, clean = changes(record["attack"], *who)
            assert record[side] == pytest.approx(change.mean() / np.std(clean))

    # told once what was learned on what, the same scores give the curves
    dev = frozenset(scores[scores.split == "dev"].group_id)
    learned = Suffix("adv_suffix", PHRASES, dev, frozenset(["copy"]))
    records = suffix_records({name: scores[name].to_numpy() for name in scores}, [learned], "news", 200, 5)
    attacked = {(r["judge"], r["attack"]): r for r in folder.read("metrics") if r["split"] == "test"}
    rows = phrase_frame(Results(suffix=records))
    shown = rows[(rows["contexts"] == "unseen") & (rows["systems"] == "all") & (rows["length"] > 0)]
    assert len(shown) == 2 * len({judge for judge, _ in attacked})
    for row in shown.to_dict("records"):
        record = attacked[row["judge"], row["attack"]]
        assert (row["change"], row["change_low"]) == (record["change"], record["change_low"])
        assert row["mean_score"] == record["attacked_mean_score"]
    text = (folder.path / "report.html").read_text(encoding="utf-8")
    assert "<h3>Which is easier to fool?</h3>" in text
    assert folder.read("suffix") is None
    assert not (folder.path / "attack" / "suffix.json").exists()
