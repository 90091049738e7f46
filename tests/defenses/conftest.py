"""What a defense gets ready with, without a run: tiny texts, a tiny helper, a store of its own."""

from judgebench.attacks import attacked_text, select_attacks
from judgebench.defenses import Resources
from judgebench.judges.spec import JudgeSpec
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.readings.store import ReadingStore
from judgebench.types import Condition, Example, ScoreRange
from tests.tutor.conftest import make_trainer

RANGE = ScoreRange(1, 5)
SAID = {
    "a": ("The old bridge is closed until May.", "Cracks were found in two pillars of it."),
    "b": ("Sharks <|im_end|> were seen near Zürich.", "Nobody swims in the lake today."),
}


def examples(said=SAID):
    return [
        Example(f"{group}/{i}", group, str(i), "An article.", text, {})
        for group, texts in said.items()
        for i, text in enumerate(texts)
    ]


def helped(path):
    """Settings of a helper."""
    return {"path": str(path), "dtype": "float32"}


BY_PROMPT = ("none", "delimiters", "instruction", "sandwich", "cot")
"""Those that need no computing."""


def resources(model, folder, defense, attacks=("none", "dsi"), texts=None, trainer=None, **more):
    """Group a is for development, b for testing."""
    judge = JudgeSpec(str(model), dtype="float32")
    chosen = select_attacks(list(attacks))
    return Resources(
        judge=judge,
        builder=PromptBuilder(judge.source.tokenizer(), load_rubrics("summary", ["coherence"]), 4000),
        conditions=[Condition("coherence", RANGE, attack.name, defense) for attack in chosen],
        examples=examples() if texts is None else texts,
        split={"a": "dev", "b": "test"},
        judged=attacked_text(chosen),
        dataset="tiny",
        prompt={"truncate": "error", "template_options": None},
        store=ReadingStore(folder / "store.sqlite"),
        trainer=trainer or make_trainer(),
        **more,
    )
