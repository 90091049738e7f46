"""Run folders and cards whose settings of attacks and defenses stand beside their lists."""

from judgebench.attacks import AdvSuffix, select_attacks
from judgebench.config.earlier import in_entries
from judgebench.defenses import select_defenses
from judgebench.defenses.settings import Helper

USUAL = {
    "_target_": "judgebench.defenses.settings.DefenseSettings",
    **{"seed": 0, "cot_tokens": 512, "thought_tokens": 512, "anchors": 1, "anchors_sources": False},
    **{"swap_references": False, "detectors": None},
    "helper": {"_target_": "judgebench.defenses.settings.Helper", "path": "models/a", "max_batch_tokens": 4096},
}
PHRASE = {"_target_": "judgebench.attacks.PhraseFile", "phrase_file": "phrase.json"}
LEARNED = {"_target_": "judgebench.attacks.search.AdvSuffix", "words": 200, "search": {"shortlist": 1}}


def content(defenses, attack=None, **settings):
    parts = {"judge": {"path": "models/a"}, "attacks": ["none", "dsi"], "attack": attack}
    return in_entries({**parts, "defenses": defenses, "defense": {**USUAL, **settings}})


def test_settings_come_to_the_defenses_that_they_are_for(tmp_path):
    (tmp_path / "mine.txt").write_text("{marker} {prompt}")
    own = [str(tmp_path / "mine.txt"), {"template": str(tmp_path / "mine.txt"), "name": "again"}]
    given = {"seed": 3, "cot_tokens": 96, "thought_tokens": 64, "anchors": 2, "anchors_sources": True}
    entries = content(["none", "cot", "reasoning", "anchors_2", "delimiters", "perplexity", *own], **given)
    assert "defense" not in entries
    _, cot, reasoning, anchors, delimiters, perplexity, mine, again = select_defenses(entries["defenses"])
    assert (cot.answer_tokens, reasoning.thought_tokens) == (96, 64)
    assert (anchors.name, anchors.seed, anchors.count, anchors.sources) == ("anchors_2", 3, 2, True)
    assert (delimiters.seed, mine.seed, again.seed) == (3, 3, 3)
    assert (mine.name, again.name) == ("mine", "again")
    assert perplexity.helper is None  # the judge's own


def test_a_helper_of_its_own_stays_and_a_class_of_ones_own_takes_nothing():
    helper = {"_target_": "judgebench.defenses.settings.Helper", "path": "models/b", "dtype": "float32"}
    mine = {"_target_": "mine.Defense", "most": 60}
    entries = content(["perplexity", mine], helper=helper, seed=3)["defenses"]
    assert entries[1] == mine
    (perplexity,) = select_defenses(entries[:1])
    assert perplexity.helper == Helper("models/b", dtype="float32")


def test_a_phrase_is_one_of_the_attacks():
    assert content(["none"])["attacks"] == ["none", "dsi"]
    *_, taken = select_attacks(content(["none"], PHRASE)["attacks"])
    assert taken == AdvSuffix(phrase_file="phrase.json")
    *_, learned = select_attacks(content(["none"], LEARNED)["attacks"])
    assert learned == AdvSuffix(words=200)


def test_what_has_its_settings_in_entries_stays_as_it_is():
    now = {"judge": {}, "attacks": ["none"], "defenses": [{"name": "cot", "answer_tokens": 96}]}
    assert in_entries(now) == now
