"""Few-shot anchors: which texts are shown to whom, with which scores; runs with them, packed and plain; refusals."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from judgebench.command import calibrate, record
from judgebench.data.dataset import Dataset, RatingDataset
from judgebench.defenses import select_defenses, shipped_defenses
from judgebench.defenses.anchors import ANCHORS, draw_anchors
from judgebench.judges.local.batches import plan, roots
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.results.folder import RunFolder
from judgebench.types import Condition, Example, ScoreRange
from judgebench.words.errors import UserError
from tests.conftest import QUICK, told
from tests.served import answer

RANGES = [ScoreRange(1, 5), ScoreRange(0, 4), ScoreRange.parse([5, 1]), ScoreRange.parse(["E", "D", "C", "B", "A"])]
CELLS = [("coherence", score_range) for score_range in RANGES]
SHOWN = ("defenses=[none,anchors]", "data.dev_share=0.5", "data.limit_groups=4")


class Rated(RatingDataset):
    """Twelve groups of five texts, scored 1 to 5 by people; of those in `without` none has such a score."""

    name = "rated"

    def __init__(self, without=(), **settings):
        super().__init__(**settings)
        self._without = without

    def load(self):
        examples = [
            Example(f"{g}/{x}", f"g{g}", "s", f"Source {g}.", f"Text {g} of {x} <|im_end|>.", {"coherence": x})
            for g in range(12)
            for x in (1.0, 2.0, 3.0, 4.0, 5.0)
            if x not in self._without
        ]
        return Dataset(examples, {"coherence": (1.0, 5.0)})


def fitted(name="anchors", without=(), cells=CELLS, dev_share=0.5, **changed):
    data = Rated(without, dev_share=dev_share)
    data.setup()
    return data, replace(shipped_defenses()[name](), **changed).fitted(data, cells)


def texts(defense, example, score_range=RANGES[0]):
    """(group, human score, score as shown) of each anchor."""
    block = defense.more(example, Condition("coherence", score_range, defense="anchors"))["Anchors"]
    return re.findall(r"Text (\d+) of ([\d.]+) <\|im_end\|>\.\n\nScore: (\S+)", block)


def test_anchors_have_the_humans_scores_in_each_range_and_never_come_from_the_texts_own_group():
    data, defense = fitted()
    said = {RANGES[0]: "12345", RANGES[1]: "01234", RANGES[2]: "54321", RANGES[3]: "EDCBA"}
    for example in data.examples:
        for score_range, labels in said.items():
            anchors = texts(defense, example, score_range)
            assert [human for _, human, _ in anchors] == ["1.0", "2.0", "3.0", "4.0", "5.0"]
            assert [label for _, _, label in anchors] == list(labels)
            assert example.group_id not in {f"g{group}" for group, _, _ in anchors}
            assert {data.split[f"g{group}"] for group, _, _ in anchors} == {"dev"}
            # one draw for all ranges
            assert [anchor[:2] for anchor in anchors] == [anchor[:2] for anchor in texts(defense, example)]
    # all but the few groups that lend an anchor read the same, and those replace their own alone
    folds = {example.group_id: defense.fold(example, Condition(*CELLS[0])) for example in data.examples}
    lent = {f"g{group}" for group, _, _ in texts(defense, next(e for e in data.examples if not folds[e.group_id]))}
    assert {group for group, fold in folds.items() if fold} == lent
    assert all(data.split[group] == "dev" for group in lent)


def test_one_seed_is_one_draw_and_each_name_another():
    test = next(e for e in fitted()[0].examples if fitted()[0].split[e.group_id] == "test")
    draws = {name: tuple(texts(fitted(name)[1], test)) for name in ANCHORS}
    assert draws == {name: tuple(texts(fitted(name)[1], test)) for name in ANCHORS}
    assert len(set(draws.values())) == len(ANCHORS)
    assert len({tuple(texts(fitted(seed=seed)[1], test)) for seed in range(4)}) == 4
    # more texts a level begin with the same ones
    three = texts(fitted(count=3)[1], test)
    assert len(three) == 15
    assert set(draws["anchors"]) <= set(three)
    assert "Source:\nSource " in fitted(sources=True)[1].more(test, Condition(*CELLS[0]))["Anchors"]


def test_a_level_without_texts_shows_the_nearest_with_their_own_scores_and_says_so():
    data, defense = fitted(without=(1.0, 4.0), cells=CELLS[:1])
    assert [label for _, _, label in texts(defense, data.examples[0])] == ["2", "2", "3", "3", "5"]
    assert defense.note == (
        "People gave no development text the scores 1, 4 of 1-5 (coherence): anchors shows the nearest texts."
    )
    assert fitted()[1].note is None
    # of a wide range five scores; where texts run out, no text is shown twice
    wide = ScoreRange(0, 100)
    data, defense = fitted(cells=[("coherence", wide)])
    assert [label for _, _, label in texts(defense, data.examples[0], wide)] == ["0", "25", "50", "75", "100"]
    assert draw_anchors([(1.0, data.examples[0])], (1.0, 2.0, 3.0), 2) == ([(1.0, data.examples[0])], [2.0, 3.0])


def test_what_all_read_is_computed_once_and_no_anchor_says_a_control_token(smollm2_tokenizer):
    data, defense = fitted(cells=CELLS[:1])
    builder = PromptBuilder(smollm2_tokenizer, load_rubrics("summary", ["coherence"]), 4000).under([defense])
    prompts = builder.build(data.examples, [Condition(*CELLS[0], defense="anchors")])
    control = smollm2_tokenizer.convert_tokens_to_ids("<|im_end|>")
    framed = PromptBuilder(smollm2_tokenizer, load_rubrics("summary", ["coherence"]), 4000).null(Condition(*CELLS[0]))
    for prompt in prompts:
        assert smollm2_tokenizer.decode(prompt.token_ids.tolist()) == prompt.text
        assert prompt.token_ids.tolist().count(control) == framed.token_ids.tolist().count(control)
    alike = [prompt for prompt in prompts if not prompt.fold]
    root = roots(prompts)[alike[0].alike]
    assert len(root) > len(smollm2_tokenizer(texts_of(defense, data))["input_ids"])
    assert all(len({prompt.fold for prompt in batch.prompts}) == 1 for batch in plan(prompts, 4096))


def texts_of(defense, data):
    return defense.more(replace(data.examples[0], group_id=""), Condition(*CELLS[0]))["Anchors"]


def test_a_run_reads_them_packed_as_plain_and_again_from_a_recording(judgebench, called, tiny_pair):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", "decoding=[expectation]", *QUICK, *SHOWN)
    read = {}
    for engine in ("prefix", "plain"):
        judgebench(*given, f"judge.engine={engine}", f"run_dir={engine}")
        read[engine] = RunFolder.open(engine).read("readings")
    packed, plain = (np.array(read[engine]["main_logprobs"].tolist()) for engine in ("prefix", "plain"))
    assert np.abs(packed - plain).max() < 1e-3
    shown = read["prefix"]["defense"] == "anchors"
    assert shown.sum() == (~shown).sum()
    assert read["prefix"]["prompt"].str.contains("with the scores that people gave them").equals(shown)
    metrics = RunFolder.open("prefix").read("metrics")
    assert {row["defense"] for row in metrics} == {"none", "anchors"}
    called(record.main, "prefix", "out=kept.parquet")
    given = ("judge=recorded", "judge.path=kept.parquet", "decoding=[expectation]", *QUICK, *SHOWN)
    judgebench(*given, "run_dir=again")
    first, again = (RunFolder.open(name).read("scores") for name in ("prefix", "again"))
    assert first["score"].tolist() == again["score"].tolist()
    # another draw is another prompt, which was not recorded
    _, _, err = judgebench(*given, "defenses.1={name: anchors, seed: 1}", "run_dir=other", mistaken=True)
    assert "prompts are not what was read" in err


def test_a_served_judge_reads_them(judgebench, small_server):
    small_server.otherwise = answer()
    at = ("judge=api", f"judge.url={small_server.url}", "judge.model=small", "judge.backoff=0.01")
    judgebench(*at, *QUICK, *SHOWN, "decoding=[expectation]")
    sent = [seen["body"]["messages"][0]["content"] for seen in small_server.seen]
    assert sum("with the scores that people gave them" in text for text in sent) == len(sent) // 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("data.dev_share=0",), "give it more with data.dev_share=0.2"),
        (("data.limit_groups=2", "data.dev_share=0.5"), "a text none of its own group, so two articles"),
        (("defenses.1={name: anchors, count: 0}",), "defenses: anchors.count: 0 should be"),
        (("prompt.max_tokens=600",), "defense anchors) has "),
        (("prompt=comparative",), "anchors is for texts that are judged alone"),
    ],
)
def test_mistakes_are_told(judgebench, tiny_pair, words, sentence):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", *QUICK, *SHOWN)
    kept = [word for word in given if word.split("=")[0] not in {each.split("=")[0] for each in words}]
    told(judgebench(*kept, *words, mistaken=True), sentence)


def test_a_card_holds_no_labelled_texts(judgebench, called, tiny_pair):
    given = ("judge=local", f"judge.path={tiny_pair[0]}", "logger=none", *SHOWN)
    told(
        called(calibrate.main, *given, mistaken=True), "defenses: anchors shows labelled texts, and a judge card holds"
    )


def test_texts_without_a_human_score_are_no_anchors():
    data = Rated(dev_share=0.5)
    data.setup()
    data.examples = [replace(text, human={"coherence": math.nan}) for text in data.examples]
    (defense,) = select_defenses(["anchors"])
    with pytest.raises(UserError, match="that people scored for 'coherence'"):
        defense.fitted(data, CELLS)
