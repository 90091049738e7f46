"""Settings are checked in one way: each field by its annotation, then what does not go together, all at once."""

from dataclasses import dataclass

import pytest

from judgebench.judges.spec import JudgeSpec
from judgebench.settings.fields import Annotated, Distinct, Ge, NotBlank, Words, check_fields, settings_of
from judgebench.settings.run import RunSettings
from judgebench.words.errors import UserError

SWITCHES = dict.fromkeys(("report", "human_agreement", "examples", "dry_run"), True) | {
    "baseline": None,
    "print": "all",
}


@dataclass(frozen=True)
class Pace:
    least: Annotated[int, Ge(0)] = 0
    most: Annotated[int, Ge(0)] = 9
    names: Annotated[list[Words], NotBlank(), Distinct()] = ("a",)

    def __post_init__(self):
        check_fields(self, "pace")

    def faults(self):
        if self.least > self.most:
            yield f"pace.least: {self.least} is more than pace.most={self.most}."
        if self.most == 1:
            yield "pace.most: 1 is no range."


@pytest.mark.parametrize(
    ("given", "sentences"),
    [
        ({"least": -1, "names": []}, ["pace.least: -1 should be greater", "pace.names: [] should not be empty."]),
        ({"names": ["a", "b", "a"]}, ["pace.names: ['a', 'b', 'a'] names one twice; name each once."]),
        ({"least": 2, "most": 1}, ["pace.least: 2 is more than pace.most=1.", "pace.most: 1 is no range."]),
        ({"least": 2, "most": -1}, ["pace.most: -1 should be"]),  # not compared, where one of them is none
        ({"leest": 2, "moost": 3}, ["pace.leest is unknown; pace.least is", "pace.moost is unknown; pace.most is"]),
    ],
)
def test_all_mistakes_are_said_at_once(given, sentences):
    with pytest.raises(UserError) as error:
        settings_of(Pace, {"names": ["a"], **given}, "pace")
    found = error.value.sentences
    assert len(found) == len(sentences)
    assert all(one.startswith(start) for one, start in zip(found, sentences, strict=True))


@pytest.mark.parametrize("names", ["cd", 3, ["caps"], {"cd": 1}])
def test_tables_are_a_list_of_papers(names):
    assert settings_of(RunSettings, {**SWITCHES, "tables": ["cap", "cd"]}, "").tables == ["cap", "cd"]
    with pytest.raises(UserError, match=r"^tables(: |\[)"):
        settings_of(RunSettings, {**SWITCHES, "tables": names}, "")


def test_a_models_settings_are_checked_with_the_others_of_its_judge():
    with pytest.raises(UserError) as error:
        JudgeSpec(" ", dtype="float8", mode="guess", max_new_tokens=0)
    starts = [
        "judge.path: ' ' should",
        "judge.dtype: 'float8' should",
        "judge.mode: 'guess'",
        "judge.max_new_tokens: 0",
    ]
    assert [found.startswith(start) for found, start in zip(error.value.sentences, starts, strict=True)] == [True] * 4
