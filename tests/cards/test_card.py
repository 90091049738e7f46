"""The card file: what is written is read, and what is no judge is refused."""

import copy
from pathlib import Path

import numpy as np
import pytest
import yaml

from judgebench.cards.card import _MAKERS, Errors, EstimateMap, JudgeCard, maker_at
from judgebench.cards.judge import parts_of
from judgebench.config.check import judge_parts
from judgebench.decoding import Greedy
from judgebench.judges.precomputed.replay import ReplaySpec
from judgebench.judges.spec import JudgeSpec
from judgebench.types import ScoreRange
from judgebench.words.errors import UserError

PARTS = {
    "judge": {"_target_": "judgebench.judges.spec.JudgeSpec", "path": "models/a", "trust_remote_code": True},
    "assistant": {"_target_": "judgebench.judges.assistants.assistant", "kind": "none"},
    "prompt": {"rubrics": "summary", "variants": None, "max_tokens": None},
    "decoding": {"greedy": {"_target_": "judgebench.decoding.Greedy"}},
    "defenses": ["none"],
    "tutor": None,
}
RUBRIC = "Rate {{Summary}} from {min_range} to {max_range}.\n\n${oc.env:HOME} \\${x}\n  indented: 'quoted'"

DECISION = {"fail": "fail", "pass": "pass", "pass_mark": 2.5, "fail_to": None, "pass_from": None, "asked": 1.0}
DECISION |= {"tpr": 0.92, "tpr_low": 0.85, "tpr_high": 0.96, "tnr": 0.81, "tnr_low": None, "tnr_high": None}
DECISION |= {"error": 0.05, "rater_error": None, "lowest": None, "costs": {"false_pass": 5.0, "false_fail": 1.0}}


def card(**changes) -> JudgeCard:
    base = {
        "dimension": "coherence",
        "range": ScoreRange(1, 3, 0.5),
        "series": {"judge": "main", "decoding": "greedy"},
        "rubric": {"coherence": RUBRIC},
        "parts": PARTS,
        "models": {"main": {"title": "a", "sha256": "0" * 64}},
        "estimate": EstimateMap("linear", (1.0, 3.0), (1.0, 5.0)),
        "scale": (1.0, 5.0),
        "figures": {"dev": {"spearman": 0.5}, "test": {"spearman": 0.25, "spearman_low": None}},
        "attacks": [],
        "tried": [{"decoding": "greedy", "dev_spearman": 0.5}],
        "data": {"name": "mine", "sha256": "1" * 64, "texts": []},
        "limits": ["It holds for nothing else."],
        "made_with": {"git_commit": None},
    }
    return JudgeCard(**{**base, **changes})


USES = [{"use": "order_texts", "verdict": "yes", "clause": "75 % of pairs", "value": 0.75}]
CARDS = [
    *({}, {"uses": USES}, {"estimate": None, "scale": None}, {"range": ScoreRange.parse(["fail", "pass"])}),
    {"intervals": Errors((0.5, -0.25, 0.1), (0.0, 1.5, 0.333333), (0, 0, 7)), "decision": DECISION}
    | {"scores": {"7": 2.5, "12345678": 3.0}},
]


@pytest.mark.parametrize("changes", CARDS)
def test_a_card_is_read_as_it_was_written(tmp_path, changes):
    card(**changes).write(tmp_path / "card.yaml")
    assert JudgeCard.read(tmp_path / "card.yaml") == card(**changes)
    assert (tmp_path / "card.yaml").read_text().startswith("# A judge card")


def test_a_card_says_what_its_judge_may_do_and_why_it_has_no_intervals():
    assert card(uses=USES).verdict[0].startswith("  order texts      yes  ")
    assert card().verdict[0].startswith("  - It has no verdict, for it was made with human_agreement=false")
    assert "no map from its scores to the humans' scale" in card(estimate=None, scale=None).no_intervals
    assert card(**CARDS[-1]).no_intervals is None


SCORES = np.array([1.0, 1.5, 2.0, 2.4, 2.5, 3.0, np.nan])


@pytest.mark.parametrize(
    ("fail_to", "pass_from", "said"),
    [
        (None, None, ["ask", "ask", "ask", "ask", "ask", "ask", None]),
        (1.5, 2.5, ["fail", "fail", "ask", "ask", "pass", "pass", None]),
        (None, 2.0, ["ask", "ask", "pass", "pass", "pass", "pass", None]),
        (2.0, None, ["fail", "fail", "fail", "ask", "ask", "ask", None]),
    ],
)
def test_a_card_decides_at_its_marks(fail_to, pass_from, said):
    decision = DECISION | {"fail_to": fail_to, "pass_from": pass_from}
    deciding = card(decision=decision, uses=[{"use": "decide", "verdict": "with care", "clause": ""}])
    assert deciding.decisions(SCORES).tolist() == said
    asked = card(decision=decision, uses=[{"use": "decide", "verdict": "no", "clause": ""}])
    assert asked.decisions(SCORES).tolist() == ["ask"] * 6 + [None], "it may not decide"
    assert card(decision=decision).decisions(SCORES).tolist() == ["ask"] * 6 + [None], "its verdict is unknown"
    if fail_to is None and pass_from is None:
        said = ["fail", "fail", "fail", "fail", "pass", "pass", None]
    assert asked.decisions(SCORES, force=True).tolist() == deciding.decisions(SCORES, force=True).tolist() == said
    assert card().decisions(SCORES).tolist() == [None] * 7


@pytest.mark.parametrize("wrong", [{"pass_mark": float("nan")}, {"tpr": "high"}, {"fail": None}, {"costs": {}}])
def test_a_decision_that_is_none_is_refused(wrong, tmp_path):
    card(decision=DECISION | wrong).write(tmp_path / "card.yaml")
    with pytest.raises(UserError, match="decision"):
        JudgeCard.read(tmp_path / "card.yaml")


def test_a_card_that_was_changed_by_hand_says_so_once_and_is_used(tmp_path, capsys):
    path = tmp_path / "card.yaml"
    card().write(path)
    text = path.read_text()
    for same in (text, f"# mine\n{text}", text.replace("\nscale:", "\n\nscale: "), _reordered(text)):
        path.write_text(same)
        assert JudgeCard.read(path) == card()
        assert capsys.readouterr().err == ""
    for other in (
        text.replace("spearman: 0.5", "spearman: 0.9", 1),
        text.replace("It holds", "It also holds"),
        text + "more: 1\n",
        text.replace("\nsha256: ", "\nsha256: 0"),
    ):
        path.write_text(other)
        JudgeCard.read(path)
        said = capsys.readouterr().err
        assert said.count("\n") == 1, said
        assert "card.yaml: it was changed after" in said
    path.write_text(text.partition("\nsha256: ")[0] + "\n")
    assert JudgeCard.read(path) == card()
    said = capsys.readouterr().err
    assert "card.yaml: it does not state the SHA-256 of its content" in said
    assert said.count("\n") == 1


def _reordered(text: str) -> str:
    return yaml.safe_dump(yaml.safe_load(text), sort_keys=True)


def test_a_card_of_an_earlier_version_is_read(capsys):
    """Written at 77ff865a by calibrating recorded readings of conala_sample."""
    earlier = JudgeCard.read(Path(__file__).with_name("judge_card_77ff865a.yaml"))
    assert capsys.readouterr().err == "", "its digest is the one that it states"
    assert earlier.title == "Qwen2.5-Coder-1.5B-Instruct, quality 1-5, greedy"
    assert earlier.no_intervals is None
    parts = parts_of(earlier)
    assert parts["judge"]["path"] == earlier.parts["judge"]["path"]
    assert isinstance(judge_parts(parts).judge, JudgeSpec)


def test_a_judge_is_known_by_its_class_so_that_one_of_its_kind_is_seen(monkeypatch):
    """Were another replayed judge allowed on cards, its answers to other texts would be another file too."""

    class Sheet(ReplaySpec):
        pass

    monkeypatch.setitem(_MAKERS, ("judge",), (*_MAKERS["judge",], Sheet))
    path = f"{Sheet.__module__}.{Sheet.__name__}"
    assert card(parts={**PARTS, "judge": {"_target_": path, "path": "a.jsonl", "fields": {}}}).replayed
    assert maker_at(("judge",), path) is Sheet
    assert maker_at(("judge",), "os.system") is maker_at(("tutor",), path) is maker_at(("judge",), ["a"]) is None
    assert maker_at(("decoding", "mine", "of"), "judgebench.decoding.Greedy") is Greedy


def test_a_card_of_one_task_is_refused_for_another():
    for dimension, scale in ((None, None), ("coherence", [1, 5]), (None, [1.0, 5])):
        card().check_task(dimension, scale)
    with pytest.raises(
        UserError, match=r"for coherence on a scale of 1 to 5 \(mine\), and a scale of 0 to 4 is wanted"
    ):
        card().check_task(None, [0, 4])
    with pytest.raises(UserError, match=r"and quality on a scale of 1 to 5 is wanted here"):
        card().check_task("quality", [1, 5])
    with pytest.raises(UserError, match="for coherence on an unknown scale"):
        card(scale=None).check_task("coherence", [1, 5])
    with pytest.raises(UserError, match=r"scale: \[1\] is no scale"):
        card().check_task(None, [1])


def test_what_a_card_says_is_literal_and_code_of_a_model_runs_only_where_the_user_says_so():
    parts = parts_of(card())
    assert parts["prompt"]["rubrics"] == {"coherence": RUBRIC}
    assert parts["judge"]["trust_remote_code"] is False
    settings = {"judge": {"trust_remote_code": True, "path": "models/b"}}
    helped = {"name": "perplexity", "helper": {"path": "models/a", "trust_remote_code": True}}
    parts = parts_of(card(parts={**PARTS, "defenses": [helped]}), settings)
    assert parts["judge"]["trust_remote_code"] is True
    # a model that lies elsewhere is the helper there too
    assert (parts["judge"]["path"], parts["defenses"][0]["helper"]["path"]) == ("models/b", "models/b")
    assert parts["defenses"][0]["helper"]["trust_remote_code"] is False


def test_a_key_goes_nowhere_that_the_user_has_not_named():
    served = {
        "_target_": "judgebench.judges.served.settings.ApiSpec",
        "url": "http://evil",
        "key_variable": "AWS_SECRET",
    }
    asking = card(parts={**PARTS, "judge": {**served, "model": "m"}})
    with pytest.raises(UserError, match=r"would be sent every text that is scored\. If .* say so: send_to=evil"):
        parts_of(asking, {"judge": {"key_variable": "MINE"}})
    with pytest.raises(UserError, match=r"would be sent the key in the environment variable AWS_SECRET\."):
        parts_of(asking, send_to="evil")
    fleet = {**served, "url": ["https://evil/v1", "http://127.0.0.1:1/v1", "https://worse/v1"], "key_variable": None}
    asking_two = card(parts={**PARTS, "judge": {**fleet, "model": "m"}})
    with pytest.raises(UserError, match=r"send_to=\[evil,worse\]"):
        parts_of(asking_two)
    with pytest.raises(UserError, match=r"If you trust worse, say so: send_to=worse"):
        parts_of(asking_two, send_to="evil")
    agreed = parts_of(asking, {"judge": {"key_variable": "MINE"}}, send_to=["evil"])
    assert agreed["judge"]["key_variable"] == "MINE"


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        ("assistant", "_target_", "judgebench.runtime.files.os.system"),
        ("decoding", "greedy", {"_target_": "subprocess.run"}),
        ("decoding", "greedy", {"_target_": "judgebench.decoding.Greedy", "_args_": [1]}),
        ("judge", "_target_", "judgebench.defenses.settings.Helper"),
        ("defenses", 0, {"_target_": "judgebench.judges.spec.JudgeSpec"}),
    ],
)
def test_a_card_makes_nothing_but_a_judge(tmp_path, place, key, value):
    parts = copy.deepcopy(PARTS)
    parts[place][key] = value
    card(parts=parts).write(tmp_path / "card.yaml")
    with pytest.raises(UserError, match="is no part of a judge; do not use this card"):
        JudgeCard.read(tmp_path / "card.yaml")


def test_files_that_are_no_card_are_told_apart(tmp_path):
    path = tmp_path / "card.yaml"
    card().write(path)
    content = yaml.safe_load(path.read_text())
    path.unlink()
    wrong = {
        "a: [1, 2": "not valid YAML",
        "!!python/object/apply:os.system ['true']": "not valid YAML",
        "format: something": "this is no judge card",
        yaml.safe_dump({**content, "range": [3, 3]}): r"card.yaml: range",
        yaml.safe_dump({**content, "scale": [1, 3, 5]}): r"card.yaml: scale must be \[worst, best\]",
    }
    for wide in ({"errors": [1.0]}, {"spread": [1.0, 0.0, 0.0]}, {"spread": [1.0]}, {"errors": [1.0, float("nan")]}):
        errors = {"spread": [1.0, 0.0, 0.5], "errors": [1.0, 2.0], "articles": [0, 1], **wide}
        wrong[yaml.safe_dump({**content, "intervals": errors})] = (
            r"card.yaml: intervals: they take a spread \[a, b, c\]"
        )
    for name in content.keys() - {"format", "sha256"}:
        wrong[yaml.safe_dump({key: value for key, value in content.items() if key != name})] = "damaged"
    with pytest.raises(UserError, match="there is no such file"):
        JudgeCard.read(path)
    for text, sentence in wrong.items():
        path.write_text(text)
        with pytest.raises(UserError, match=sentence):
            JudgeCard.read(path)
