"""A judge of one's own: what it says is checked, and its card, its panel and its gate are as those of any judge."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from judgebench.cards import Judge
from judgebench.cards.card import JudgeCard
from judgebench.decoding import Expectation, Greedy
from judgebench.judges.judge import PromptSet
from judgebench.judges.own import OwnReader
from judgebench.judges.spec import GENERATION, OWN, PROBABILITIES
from judgebench.results.folder import RunFolder
from judgebench.types import Condition, Prompt, ScoreRange
from judgebench.words.errors import UserError
from tests.conftest import read_rows, write_rows
from tests.judges.own_judges import Dictionary, Gives, Likely, Says, Silent
from tests.judges.precomputed.test_recorded import EXAMPLES, SPLIT

HERE = "tests.judges.own_judges"
CELL = Condition("coherence", ScoreRange(1, 3))
PROMPTS = [Prompt(one, CELL, "", "", np.zeros(0, np.int32)) for one in EXAMPLES]


def readings(judge: Any) -> Any:
    decodings: Mapping[str, Any] = {"greedy": Greedy(), "expectation": Expectation()}
    asking: Any = SimpleNamespace(
        settings=judge, assistant=SimpleNamespace(kind="none", answers=False), decodings=decodings, free_text={}
    )
    return OwnReader(asking, PromptSet(PROMPTS)).readings(SPLIT)


def test_probabilities_and_words_are_readings() -> None:
    given = readings(Gives(what=[0.25, 0.75, 0.0]))
    assert len(given) == len(PROMPTS)
    np.testing.assert_allclose(np.exp(given[0].main_logprobs), [0.25, 0.75, 0.0])
    assert given[0].text is None
    # a sum that is 1 but for rounding is made 1, so that no reading has more
    rounded = readings(Gives(what=(0.3335, 0.3335, 0.3335)))
    np.testing.assert_allclose(np.exp(rounded[0].main_logprobs).sum(), 1, rtol=1e-12)
    said = {(reading.text, reading.generation.decoding) for reading in readings(Says(what="Rating: 2"))}
    assert said == {("Rating: 2", "greedy")}


@pytest.mark.parametrize(
    ("judge", "sentence"),
    [
        (Gives(what=[0.5, 0.5]), r"gives \[0.5, 0.5\], which are not 3 numbers, one for each of \('1', '2', '3'\)"),
        (Gives(what="abc"), "gives 'abc', which are not 3 numbers"),
        (Gives(what=[-0.5, 1.0, 0.5]), "of which one is no probability"),
        (Gives(what=[float("nan"), 0.5, 0.5]), "of which one is no probability"),
        (Gives(what=[0.1, 0.1, 0.1]), "whose sum is 0.3 and not 1"),
        (Gives(what="fail"), r"probabilities fails in line \d+ with AttributeError \('Prompt' object has no"),
        (Says(what=3), "answer gives 3, which is no text"),
        (Says(what="fail"), r"answer fails in line \d+ with AttributeError"),
    ],
)
def test_what_is_no_answer_is_named_with_class_file_and_example(judge: Any, sentence: str) -> None:
    place = rf"judge: {HERE}.\w+ \(.*own_judges.py\): about example {EXAMPLES[0].example_id} \(coherence, 1-3\) "
    with pytest.raises(UserError, match=place + f".*{sentence}.*; mend the class"):
        readings(judge)


def test_the_line_that_is_named_is_the_class_s_own() -> None:
    with pytest.raises(UserError) as caught:
        readings(Gives(what="fail"))
    lines = Path(Gives().source.path).read_text().splitlines()
    number = int(str(caught.value).partition(" in line ")[2].split()[0])
    assert "prompt.nowhere" in lines[number - 1]
    assert isinstance(caught.value.__cause__, AttributeError)


def test_a_class_says_what_it_can() -> None:
    assert Dictionary(words={}).capabilities == {OWN, GENERATION}
    assert Likely(words={}).capabilities == {OWN, PROBABILITIES}
    assert (Dictionary(words={}).name, Likely(words={}, title="Mine").name) == ("Dictionary", "Mine")
    with pytest.raises(UserError, match=r"own_judges\.Silent says nothing of a text; define answer\(self, prompt\)"):
        Silent()
    with pytest.raises(UserError, match=r"judge\.title: 3 is no name"):
        Says(title=3)  # type: ignore[arg-type]
    Typed: Any = type("Typed", (Says,), {"__module__": "typed"})
    with pytest.raises(UserError, match=r"typed\.Typed stands in no file"):
        Typed().sha256()


def test_its_digest_is_of_class_settings_and_files(tmp_path: Path) -> None:
    class Filed(Dictionary):
        def files(self) -> list[Path]:
            return [tmp_path / "model"]

    (tmp_path / "model").write_text("a")
    assert Dictionary(words={"a": 1, "b": 0}).sha256() == Dictionary(words={"b": 0, "a": 1}).sha256()
    before = Filed(words={}).sha256()
    assert len({before, Dictionary(words={}).sha256(), Dictionary(words={"a": 1}).sha256()}) == 3
    (tmp_path / "model").write_text("b")
    assert Filed(words={}).sha256() != before


ROWS = [
    {"example_id": f"{group}-{score}", "group_id": str(group), "system_id": f"s{score}", "source": f"Article {group}."}
    | {"output": " ".join(["good"] * score + ["bad"] * (5 - score)), "human": {"coherence": score}}
    for group in range(12)
    for score in range(1, 6)
]
"""Texts that the dictionary rates as people do."""

JUDGE = ("judge=own", f"judge._target_={HERE}.Likely", "+judge.words={good: 1, bad: 0}", "assistant=none")
RUN = ("data=jsonl", "data.path=texts.jsonl", "data.scale=[1,5]", "ranges=[[1,5]]", "prompt.rubrics=summary")
QUICK = ("logger=none", "report=false", "metrics.resamples=20")
DECODINGS = "decoding=[greedy,expectation]"


@pytest.fixture
def command(called: Any) -> Any:
    """A command in this process: its module and arguments -> (exit code, stdout, stderr)."""

    def call(module: str, *arguments: str, mistaken: bool = False) -> Any:
        return called(importlib.import_module(module).main, *arguments, mistaken=mistaken)

    return call


def test_it_stands_on_a_card_is_gated_recorded_and_in_a_panel(judgebench: Any, command: Any) -> None:
    write_rows(Path("texts.jsonl"), ROWS)
    # 1. a run, its recording and a panel of both
    judgebench(*RUN, *JUDGE, DECODINGS, *QUICK, "run_dir=run")
    command("judgebench.command.record", "run", "out=readings.parquet")
    judgebench(*RUN, "judge=panel", "judge.members=[run,readings.parquet]", *QUICK, "run_dir=panel")
    (alone, together) = (RunFolder.open(name).read("scores") for name in ("run", "panel"))
    np.testing.assert_allclose(
        alone[alone.decoding == "expectation"].score, together[together.decoding == "expectation"].score, rtol=1e-6
    )
    # 2. a card, whose code runs once it is trusted
    said = command("judgebench.command.calibrate", *RUN, *JUDGE, DECODINGS, *QUICK, "run_dir=calibrated")[1]
    card = "card=calibrated/judge_card.yaml"
    assert f"judgebench score {card} trust_judge=true" in said
    assert f"judgebench gate {card} trust_judge=true" in said
    with pytest.raises(UserError, match=rf"'{HERE}.Likely', a class that does not come with judgebench, and its code"):
        JudgeCard.read("calibrated/judge_card.yaml")
    code, _, err = command("judgebench.command.score", card, "data.path=texts.jsonl", "out=s.jsonl", mistaken=True)
    assert code == 2
    assert f"say so: python -m judgebench score {card} data.path=texts.jsonl out=s.jsonl trust_judge=true (in" in err
    assert not Path("s.jsonl").exists()
    command("judgebench.command.score", card, "data.path=texts.jsonl", "out=s.jsonl", "trust_judge=true")
    scored = read_rows("s.jsonl")
    estimates = [row["estimate"] for row in scored]
    assert np.corrcoef(estimates, [row["human"]["coherence"] for row in ROWS])[0, 1] > 0.95  # type: ignore[index]
    judge = Judge.from_card("calibrated/judge_card.yaml", trust_judge=True, store="none")
    assert judge.score("Article 1.", ROWS[4]["output"]).estimate == pytest.approx(scored[4]["estimate"])  # type: ignore[arg-type]
    # 3. the gate, and a judge that has changed
    gate = (card, "data=jsonl", "data.path=texts.jsonl", "trust_judge=true", "report=false", "drift=off")
    asked = ("require={order_texts: with_care}", "run_dir=gate")
    assert "Gate: passed." in command("judgebench.command.gate", *gate, *asked)[1]
    changed = ("trust_judge=true", "+judge.title=A")
    code, _, err = command("judgebench.command.score", card, "data.path=texts.jsonl", *changed, mistaken=True)
    assert (code, "take its class, settings and files as they were calibrated" in err) == (2, True)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("os.system", "'os.system', which is no judge; do not use this card"),
        ("nowhere.Dictionary", "the class 'nowhere.Dictionary', which is not here (No module named 'nowhere')"),
        ("tests.judges.own_judges.Nothing", "which is not here (module 'tests.judges.own_judges' has no attribute"),
    ],
)
def test_a_trusted_card_makes_nothing_but_a_judge(tmp_path: Path, target: str, sentence: str) -> None:
    from tests.cards.test_card import PARTS, card

    path = tmp_path / "card.yaml"
    card(parts={**PARTS, "judge": {"_target_": target, "command": "true"}}).write(path)
    with pytest.raises(UserError) as caught:
        Judge(JudgeCard.read(path, trust_judge=True), check_models=False)
    assert sentence in str(caught.value)
