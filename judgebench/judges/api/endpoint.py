"""Sources of served judges, and counters of their prompts' tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from judgebench.judges.loading import ModelSource

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_CHARACTERS = 4
"""Characters of a token, where no tokenizer is at hand."""
_UNLIMITED = 2**31


@dataclass(frozen=True)
class Endpoint:
    """Source of a served judge; see `Source`.

    Attributes:
        name: of the model, as the server calls it.
        counted_by: the tokenizer that prompts are built with; None for prompts that the server's own template frames,
            whose tokens are estimated at four characters each.
        context: most tokens of prompt and answer together, where that is known.
    """

    name: str
    title: str
    counted_by: ModelSource | None = None
    context: int | None = None
    encoder_decoder: ClassVar[bool] = False

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The model's own, or one that counts a token every four characters and has no chat template."""
        return self.counted_by.tokenizer() if self.counted_by is not None else estimating_tokenizer()

    def config(self) -> Any:
        """Limit of a model that reads `context` tokens."""
        from transformers import PretrainedConfig

        config: Any = PretrainedConfig()
        config.max_position_embeddings = self.context or _UNLIMITED
        return config


def estimating_tokenizer() -> PreTrainedTokenizerBase:
    """One that takes every four characters for a token, and knows no token by name.

    Example:
        >>> len(estimating_tokenizer()("ten chars.")["input_ids"])
        3
    """
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = Split(Regex(rf"[\s\S]{{1,{_CHARACTERS}}}"), "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?")
