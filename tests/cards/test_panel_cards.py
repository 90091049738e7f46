"""Panels of judge cards and of stores: a panel of one card is that card's judge, a panel's card scores as its members'
scores combined by hand; what is missing, fails or has no consent is named."""

import json
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra.core.global_hydra import GlobalHydra
from sklearn.linear_model import LinearRegression

from judgebench.calibrate import main as calibrate
from judgebench.cards import Judge, JudgeCard
from judgebench.cards.calibration import _of_panel
from judgebench.cards.card import PANEL_JUDGE, EstimateMap
from judgebench.data.benchmarks import Mini
from judgebench.judges.panel import PanelSpec
from judgebench.results.folder import RunFolder
from judgebench.runtime.errors import UserError
from judgebench.score import main as score
from tests.cards.test_card import PARTS, card

QUICK = ("data.limit_groups=6", "logger=none", "metrics.resamples=50", "report=false")
RUN = (*QUICK, "judge=panel", "assistant=none", "decoding=[expectation]", "ranges=[[1,5]]", "tune=none", "worth=false")
FORCED = (*QUICK, "force=true")


@pytest.fixture(scope="module")
def cards(tmp_path_factory, tiny_pair):
    """A folder with the cards of two judges, in ranges of their own, whose readings are in its store."""
    folder = tmp_path_factory.mktemp("cards")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, path, scores in (("a", tiny_pair[0], "[1,5]"), ("b", tiny_pair[1], "[0,9]")):
            GlobalHydra.instance().clear()
            one = ("judge=local", f"judge.path={path}", f"ranges=[{scores}]", f"run_dir={name}", "assistant=none")
            patch.setattr(sys, "argv", ["calibrate", *FORCED, *one, "decoding=[expectation]"])
            calibrate()
            # a tiny model's estimates may not rise with its scores
            made = JudgeCard.read(f"{name}/judge_card.yaml")
            knots = tuple(map(float, (made.range.minimum, made.range.maximum)))
            JudgeCard(**{**vars(made), "estimate": EstimateMap("linear", knots, (1.5, 4.5))}).write(
                Path(f"{name}.yaml")
            )
    return folder


@pytest.fixture
def place(cards, monkeypatch, judgebench):
    monkeypatch.chdir(cards)
    return judgebench


def texts() -> list[dict]:
    data = Mini(limit_groups=6)
    data.setup()
    names = ("example_id", "group_id", "system_id", "source", "output")
    return [{name: getattr(example, name) for name in names} for example in data.examples]


def stored() -> int:
    return sqlite3.connect("outputs/readings.sqlite").execute("SELECT COUNT(*) FROM readings").fetchone()[0]


def by_name(frame: pd.DataFrame, column: str = "score") -> np.ndarray:
    return frame.set_index("example_id")[column].loc[[text["example_id"] for text in texts()]].to_numpy()


def test_a_panel_of_one_card_is_that_cards_judge_and_reads_nothing_twice(place):
    before = stored()
    place(*RUN, "judge.members=[b.yaml]", "run_dir=one", "attacks=[none,dsi]")
    after = stored()
    assert after == before + len(texts()), "the attacked texts alone"
    place(*RUN, "judge.members=[{card: b.yaml}]", "run_dir=again", "attacks=[none,dsi]")
    assert stored() == after
    scores = RunFolder.open("one").read("scores")
    estimates = Judge.from_card("b.yaml").frame(texts())["estimate"]
    np.testing.assert_allclose(by_name(scores[scores.attack == "none"]), estimates, atol=1e-5)
    assert RunFolder.open("one").read("environment")["model_fingerprints"]["main"]["members"] == [
        JudgeCard.read("b.yaml").title
    ]
    bare = JudgeCard(**{**vars(JudgeCard.read("b.yaml")), "estimate": None})
    bare.write(Path("bare.yaml"))  # its own scores, whose ends become the range's
    place(*RUN, "judge.members=[bare.yaml]", "run_dir=bare")
    own = Judge.from_card("bare.yaml").frame(texts())["score"]
    np.testing.assert_allclose(by_name(RunFolder.open("bare").read("scores")), 1 + own * 4 / 9, atol=1e-5)


@pytest.mark.parametrize("combine", ["mean", "nnls"])
def test_the_card_of_a_panel_scores_as_its_members_combined_by_hand(place, called, tmp_path, combine):
    called(calibrate, *FORCED, "judge=panel", "judge.members=[a.yaml,b.yaml]", f"judge.combine={combine}",
           "ranges=[[1,5]]", "decoding=[expectation]", f"run_dir={combine}")  # fmt: skip
    file = Path(combine) / "judge_card.yaml"
    panel, members = JudgeCard.read(file), [Judge.from_card(f"{name}.yaml") for name in "ab"]
    each = np.array([judge.frame(texts())["estimate"] for judge in members])
    weights = np.ones(2)
    if combine == "nnls":
        data = Mini(limit_groups=6)
        data.setup()
        human = np.array([example.human[panel.dimension] for example in data.examples])
        learned = LinearRegression(positive=True).fit(each.T, human).coef_
        weights = learned if learned.any() else weights
        np.testing.assert_allclose(panel.parts["judge"]["weights"], weights / weights.sum(), atol=1e-5)
    # it says whom it is made of, and moves with its folder, but not who lies where
    assert panel.limits[0].startswith(f"It is a panel, {combine} of 2 judges")
    assert all(judge.card.title in panel.limits[0] for judge in members)
    said = file.read_text("utf-8")
    assert not [path for path in (str(Path.cwd()), members[0].card.parts["judge"]["path"]) if path in said]
    moved = tmp_path / "moved"
    Path(combine).rename(moved)
    Path("texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts()))
    _, out, _ = called(score, f"card={moved}/judge_card.yaml", "data.path=texts.jsonl", "out=scores.jsonl")
    assert f"a panel ({combine} of" in " ".join(out.split())
    written = pd.read_json("scores.jsonl", lines=True)
    np.testing.assert_allclose(written["score"], weights @ each / weights.sum(), atol=1e-5)
    if panel.estimate is not None:
        np.testing.assert_allclose(written["estimate"], panel.estimate(written["score"].to_numpy()))
    moved_card = (f"card={moved}/judge_card.yaml", "data.path=texts.jsonl")
    called(score, *moved_card, "out=shards.jsonl", "shard=7")
    np.testing.assert_allclose(pd.read_json("shards.jsonl", lines=True)["score"], written["score"], atol=1e-5)
    # in Python, texts after texts
    judge = Judge.from_card(moved / "judge_card.yaml")
    for part in (texts()[:3], texts()[3:5]):
        frame = judge.frame(part)
        np.testing.assert_allclose(by_name(written)[: len(texts())][[texts().index(t) for t in part]], frame["score"])
    _, out, _ = called(score, f"card={moved}/judge_card.yaml", "data.path=texts.jsonl", "dry_run=true")
    assert "Dry run, nothing was computed" in out
    # a member that is not what was calibrated
    (moved / "members/1/judge_card.yaml").write_text("other")
    code, _, err = called(score, f"card={moved}/judge_card.yaml", "data.path=texts.jsonl", mistaken=True)
    assert code == 2
    assert "members/1/judge_card.yaml is not what the judge was calibrated with" in err


def test_a_store_gives_the_readings_of_the_runs_own_prompts(place, tiny_pair):
    local = (*RUN[:4], *RUN[5:], "judge=local", f"judge.path={tiny_pair[0]}", "run_dir=local")
    place(*local)
    before, known = stored(), RunFolder.open("local").read("readings")
    store = "store: outputs/readings.sqlite"
    sha = RunFolder.open("local").read("environment")["model_fingerprints"]["main"]["sha256"]
    for model in (str(tiny_pair[0]), "tiny-main", sha):
        place(*RUN, f"judge.members=[{{{store}, model: {model}}}]", "run_dir=store")
        read = RunFolder.open("store").read("readings")
        assert np.array_equal(np.stack(read.main_logprobs), np.stack(known.main_logprobs))
    assert stored() == before
    mixed = f"judge.members=[{{{store}, model: tiny-main}},a.yaml]"
    place(*RUN, mixed, "run_dir=mixed")
    mean = (by_name(RunFolder.open("local").read("scores")) + Judge.from_card("a.yaml").frame(texts())["estimate"]) / 2
    np.testing.assert_allclose(by_name(RunFolder.open("mixed").read("scores")), mean, atol=1e-5)
    for given, sentence in (
        ("data.limit_groups=7", "judge.members[0].store: of {all} prompts of this run readings.sqlite lacks the "
         "probabilities of tiny-main for {new};"),
        (f"judge.members=[{{{store}, model: nobody}}]", "judge.members[0].path=nobody: there is no such folder"),
    ):  # fmt: skip
        _, _, err = place(*RUN, mixed, given, "run_dir=no", mistaken=True)
        data = Mini(limit_groups=7)
        data.setup()
        count = len(data.examples)
        assert sentence.format(all=count, new=count - len(texts())) in " ".join(err.split())
        assert not Path("no").exists()


def test_a_replayed_judge_is_asked_by_the_names_of_the_texts(place, called):
    rows = [{"example_id": text["example_id"], "text": str(1 + i % 5)} for i, text in enumerate(texts())]
    Path("answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    replay = ("judge=replay", "judge.path=answers.jsonl", "assistant=none", "decoding=[greedy]", "ranges=[[1,5]]")
    called(calibrate, *FORCED, *replay, "calibrate.estimate=none", "run_dir=replay")
    place(*RUN, "judge.members=[replay/judge_card.yaml]", "run_dir=replayed")
    scores = by_name(RunFolder.open("replayed").read("scores"))
    np.testing.assert_allclose(scores, [1 + i % 5 for i in range(len(rows))], atol=1e-5)
    _, _, err = place(*RUN, "judge.members=[replay/judge_card.yaml]", "attacks=[dsi]", "run_dir=no", mistaken=True)
    assert "judge.members[0].card: it has no score under coherence, 1-5, attack dsi" in " ".join(err.split())


SERVED = {"_target_": "judgebench.judges.api.settings.ApiSpec", "url": "http://judge.example/v1", "model": "m"}


@pytest.mark.parametrize(
    ("member", "sentence"),
    [
        ("served.yaml", "judge.members[1].card: its judge is at http://judge.example/v1 and would be sent every text"),
        ("served.yaml", "settings: {judge: {key_variable: NAME}}}; a panel's card as send_to=HOST and +judge.1.key"),
        ("fluent.yaml", "judge.members[1].card: it was calibrated for fluency on a scale"),
        ("gone.yaml", "gone.yaml: there is no such file; judge.members[1].card must be an existing file"),
        ("{card: a.yaml, settings: {judge: {path: nowhere}}}", "judge.members[1].path=nowhere: there is no such"),
        ("{card: a.yaml, settings: {model: x}}", "judge.members[1].settings.model is unknown"),
        ("{card: a.yaml, path: a}", "judge.members[1]: a member is a path (and judge, fields), a card"),
        ("{store: outputs/readings.sqlite}", "judge.members[1]: a member is a path (and judge, fields), a card"),
    ],
)
def test_a_member_that_fails_is_named(place, member, sentence):
    card(parts={**PARTS, "judge": SERVED}).write(Path("served.yaml"))
    made = JudgeCard.read("a.yaml")
    JudgeCard(**{**vars(made), "dimension": "fluency", "rubric": {"fluency": made.rubric[made.dimension]}}).write(
        Path("fluent.yaml")
    )
    code, _, err = place(*RUN, f"judge.members=[a.yaml,{member}]", "run_dir=no", mistaken=True)
    assert (code, Path("no").exists()) == (2, False)
    assert sentence in " ".join(err.split())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("judge.members=[a.yaml,a]", "of member 1 there are readings of these alone; calibrate each member first with"),
        ("judge.combine=rank", "combine=rank has ranks of these alone"),
        ("judge.weights=[1]", "judge.weights: [1] should be one number a member"),
        ("judge.weights=[0,0]", "none below 0, not all 0; of a pool alone"),
    ],
)
def test_a_panel_that_can_have_no_card_says_why(place, called, given, sentence):
    _, _, err = called(calibrate, *QUICK, "judge=panel", "judge.members=[a.yaml,b.yaml]", given, mistaken=True)
    assert sentence in " ".join(err.split())


def test_no_address_of_a_member_is_in_the_card_of_a_panel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    secret = {**SERVED, "url": "https://user:sesame@judge.example/v1", "key_variable": "MY_KEY"}
    card(parts={**PARTS, "judge": secret}).write(Path("mine.yaml"))
    data = Mini(limit_groups=1)
    data.setup()
    panel = PanelSpec(members=["mine.yaml"], weights=[2])
    of = {"_target_": PANEL_JUDGE, "members": ["mine.yaml"]}
    _of_panel(card(folder=tmp_path, parts={**PARTS, "judge": of}), panel, data).write(Path("judge_card.yaml"))
    said = Path("judge_card.yaml").read_text("utf-8")
    assert "members/0/judge_card.yaml" in said
    assert not [word for word in ("sesame", "judge.example", "MY_KEY", "mine.yaml", str(tmp_path)) if word in said]
    made = JudgeCard.read("judge_card.yaml")
    with pytest.raises(UserError, match=r"judge.members\[0\].card: .* would be sent every text"):
        Judge(made)
    for members in ([{"path": "/etc/hostname"}], ["/etc/hostname"], ["../mine.yaml"]):
        broken = card(parts={**made.parts, "judge": {**made.parts["judge"], "members": members}}, folder=tmp_path)
        with pytest.raises(UserError, match=r"parts.judge.members\[0\] names"):
            Judge(broken)
