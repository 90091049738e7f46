from dataclasses import replace

import pytest

from judgebench.defenses import NONE, TemplateDefense, select_defenses, shipped_defenses
from judgebench.runtime.errors import UserError
from tests.defenses.conftest import SETTINGS


def test_these_defenses_come_with_judgebench():
    assert list(shipped_defenses(SETTINGS)) == [
        *("none", "delimiters", "instruction", "sandwich", "retokenization"),
        *("cot", "perplexity", "windowed_perplexity", "classifier", "llm_detector", "paraphrase"),
        *("cap", "w_cap", "random_reference"),
    ]


def test_they_come_in_the_given_order_and_none_only_where_it_is_named():
    assert [one.name for one in select_defenses(["sandwich", "none"], SETTINGS)] == ["sandwich", "none"]
    assert [one.name for one in select_defenses(["retokenization"], SETTINGS)] == ["retokenization"]
    assert select_defenses(["none"], SETTINGS) == [NONE]


def test_the_seed_is_everybodys(tmp_path):
    (tmp_path / "mine.txt").write_text("{text} {marker}")
    mine, cut = select_defenses([str(tmp_path / "mine.txt"), "retokenization"], replace(SETTINGS, seed=7))
    assert mine.seed == cut.seed == 7


def test_own_templates(tmp_path):
    (tmp_path / "mine.txt").write_text("Beware.\n\n{prompt}\n")
    path = str(tmp_path / "mine.txt")
    assert select_defenses([path, {"template": path, "name": "again"}], SETTINGS) == [
        TemplateDefense("mine", "Beware.\n\n{prompt}"),
        TemplateDefense("again", "Beware.\n\n{prompt}"),
    ]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("sandwhich", "there is no defense 'sandwhich'; there are none, delimiters"),
        (5, "5 is no defense; give a name"),
        ({}, "is no defense"),
        ({"template": "a.txt", "nam": "b"}, "is no defense"),
        ({"name": "b"}, "is no defense"),
        ({"template": 5}, "template must be the path of a file, got 5"),
        ({"template": "a.txt", "name": ""}, "the name of a.txt must be text"),
        ("sandwich.txt", "sandwich.txt would be called 'sandwich'"),
        ("nowhere.txt", r"template nowhere.txt cannot be read \(No such file"),
    ],
)
def test_what_is_no_defense_is_told(given, sentence):
    with pytest.raises(UserError, match=f"^defenses: .*{sentence}"):
        select_defenses([given], SETTINGS)


def test_a_file_that_is_no_text_is_told(tmp_path):
    (tmp_path / "mine.txt").write_bytes(b"{text} \xe9")
    with pytest.raises(UserError, match=r"^defenses: .*it is not UTF-8"):
        select_defenses([str(tmp_path / "mine.txt")], SETTINGS)


def test_two_of_one_name_are_told():
    with pytest.raises(UserError, match=r"^defenses: there are two called 'none'"):
        select_defenses(["none", "none"], SETTINGS)


@pytest.mark.parametrize("seed", [-1, 0.5, True, None, "1"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(UserError, match=r"^defense.seed: "):
        select_defenses(["none"], replace(SETTINGS, seed=seed))
