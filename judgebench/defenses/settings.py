"""Settings of defenses beyond their names (conf/defense)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from judgebench.judges.loading import ModelSource
from judgebench.judges.spec import ENGINES
from judgebench.runtime.errors import UserError


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
    engine: str = "prefix"
    token_budget: int = 4096

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UserError(f"defense.helper.engine: {self.engine!r} is not one of {', '.join(ENGINES)}.")
        if not _is_whole(self.token_budget, 1):
            raise UserError(f"defense.helper.token_budget: {self.token_budget!r} is not a whole number of at least 1.")

    @cached_property
    def source(self) -> ModelSource:
        """Source of the model."""
        return ModelSource(
            self.path, self.gguf_file, self.revision, self.dtype, self.trust_remote_code, role="defense.helper"
        )

    @cached_property
    def most_tokens(self) -> int:
        """Tokens that it can read."""
        text = self.source.config().get_text_config(decoder=True)
        return int(getattr(text, "max_position_embeddings", None) or 2**31)


@dataclass(frozen=True)
class DefenseSettings:
    """See conf/defense.

    Args:
        helper: see `Helper`.
        seed: of all that defenses draw but the tutor's texts.
        cot_tokens: longest answer under `cot`.
        swap_references: put the good reference under "lower" and the poor one under "higher", as the CAP paper prints.
        detectors: file of detectors that an earlier run has fitted, to be used again; None fits them.
        window: tokens of `windowed_perplexity`'s window.
        paraphrase_tokens: longest text of `paraphrase`.

    Raises:
        UserError: a value that is none of these.
    """

    helper: Helper
    seed: int = 0
    cot_tokens: int = 512
    swap_references: bool = False
    detectors: str | None = None
    window: int = 10
    paraphrase_tokens: int = 192

    def __post_init__(self) -> None:
        if not isinstance(self.helper, Helper):
            raise UserError(f"defense.helper: {self.helper!r} is no model; conf/defense/base.yaml shows one.")
        for name, least in (("seed", 0), ("cot_tokens", 1), ("window", 1), ("paraphrase_tokens", 1)):
            value = getattr(self, name)
            if not _is_whole(value, least):
                raise UserError(f"defense.{name}: {value!r} is not a whole number of at least {least}.")
        if not isinstance(self.swap_references, bool):
            raise UserError(f"defense.swap_references: {self.swap_references!r} is neither true nor false.")
        if self.detectors is not None and (not isinstance(self.detectors, str) or not self.detectors.strip()):
            raise UserError(f"defense.detectors: {self.detectors!r} is not a path.")


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
