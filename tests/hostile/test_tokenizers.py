"""Tokenizers of models that break down."""

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.runtime.errors import UserError
from judgebench.types import Condition, Example, ScoreRange


def test_a_tokenizer_that_breaks_down_is_told(capfd):
    plain = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="[UNK]")
    builder = PromptBuilder(tokenizer, load_rubrics("dialogue", ["engagingness"]), 20_000)
    example = Example("a/0", "a", "0", "An article.", "a" * 60 + "!", {}, "Cats purr.")
    with pytest.raises(UserError, match=r"^The tokenizer .* breaks down on a text \(.*retry-limit.* another model"):
        builder.build([example], [Condition("engagingness", ScoreRange(1, 5))])
    capfd.readouterr()
