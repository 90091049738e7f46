"""Settings of defenses beyond their names (conf/defense)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from judgebench.config.fields import Annotated, Ge, NotBlank, OneOf, check_fields
from judgebench.judges.loading import ModelSource
from judgebench.judges.spec import ENGINES


@dataclass(frozen=True)
class Helper:
    """The model that scores perplexity, rewrites texts and is asked whether one manipulates.

    Args:
        path, gguf_file, revision, dtype, trust_remote_code: see `ModelSource`; the judge's own make it one model, held
            once.
        engine: `prefix` or `plain`, see `JudgeSpec`.
        token_budget: texts are read together up to so many tokens.
    """

    path: str
    gguf_file: str | None = None
    revision: str | None = None
    dtype: str = "auto"
    trust_remote_code: bool = False
    engine: Annotated[str, OneOf(ENGINES)] = "prefix"
    token_budget: Annotated[int, Ge(1)] = 4096

    def __post_init__(self) -> None:
        check_fields(self, "defense.helper", of=("engine", "token_budget"))

    @cached_property
    def source(self) -> ModelSource:
        return ModelSource(
            self.path, self.gguf_file, self.revision, self.dtype, self.trust_remote_code, role="defense.helper"
        )

    @cached_property
    def most_tokens(self) -> int:
        text = self.source.config().get_text_config(decoder=True)
        return int(getattr(text, "max_position_embeddings", None) or 2**31)


@dataclass(frozen=True)
class DefenseSettings:
    """See conf/defense.

    Args:
        seed: of all that defenses draw but the tutor's texts.
        cot_tokens, paraphrase_tokens: longest answer under `cot`, longest text of `paraphrase`.
        swap_references: put the good reference under "lower" and the poor one under "higher", as the CAP paper prints.
        detectors: file of detectors that an earlier run has fitted, to be used again; None fits them.
        window: tokens of `windowed_perplexity`'s window.

    Raises:
        UserError: a value that is none of these.
    """

    helper: Helper
    seed: Annotated[int, Ge(0)] = 0
    cot_tokens: Annotated[int, Ge(1)] = 512
    swap_references: bool = False
    detectors: Annotated[str, NotBlank()] | None = None
    window: Annotated[int, Ge(1)] = 10
    paraphrase_tokens: Annotated[int, Ge(1)] = 192

    def __post_init__(self) -> None:
        check_fields(self, "defense")
