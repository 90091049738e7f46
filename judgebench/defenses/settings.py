"""Settings of the model that helps a defense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from judgebench.settings.fields import Count
from judgebench.tutor.spec import HelpingModel


@dataclass(frozen=True)
class Helper(HelpingModel):
    """The model that scores perplexity."""

    max_batch_tokens: Count = 4096
    role: ClassVar[str] = "defenses: perplexity.helper"

    @classmethod
    def of(cls, judge: Any) -> Helper:
        """The judge's own model, which is loaded once."""
        names = ("path", "gguf_file", "revision", "dtype", "trust_remote_code", "engine")
        return cls(**{name: getattr(judge, name) for name in names})
