"""Paraphrase (Jain et al. 2023): the judge reads the text in a helper's words, not in the attacker's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from judgebench.defenses.detectors import ASKED
from judgebench.defenses.prepared import TEXTS, Findings, JudgedTexts, Planned, Prepared, Resources
from judgebench.defenses.settings import Helper
from judgebench.prompts.builder import PromptBuilder
from judgebench.runtime.errors import UserError
from judgebench.tutor.writing import Text, WritePass, write
from judgebench.types import Condition, Example, Rubric, ScoreRange

PARAPHRASE = "paraphrase"


@dataclass(frozen=True, eq=False)
class Paraphrase(Prepared):
    """Every text as the helper has written it anew.

    A phrase cannot be learned under it: every phrase that a search tries would have to be written anew first.

    Args:
        rewritten: text -> its rewriting; a text that is not there stays as it is.
        findings: with a record of what was written.
        name: see `Defense`.
    """

    rewritten: Mapping[str, str]
    findings: Findings = field(default_factory=Findings)
    name: str = PARAPHRASE
    learnable: ClassVar[bool] = False

    def text(self, text: str, example: Example, condition: Condition) -> str:
        """See `Defense.text`."""
        return self.rewritten.get(text, text)


@dataclass(frozen=True, eq=False)
class PlannedParaphrase(Planned):
    """Rewritings that are to be written, each text by itself, its likeliest token at a time.

    Args:
        helper: who writes.
        max_new_tokens: of a rewriting.
        name: see `Defense`.
    """

    helper: Helper
    max_new_tokens: int
    name: str = PARAPHRASE
    stage: ClassVar[str] = TEXTS
    learnable: ClassVar[bool] = False

    def prepared(self, resources: Resources) -> Paraphrase:
        """See `Planned.prepared`. Where the helper writes nothing, the text itself stays, and is counted.

        Raises:
            UserError: the helper cannot be read, or a text is too long for it.
        """
        helper, texts = self.helper, JudgedTexts.of(resources, self.name)
        room = helper.most_tokens - self.max_new_tokens
        if room < 1:
            raise UserError(
                f"defense.paraphrase_tokens: {self.max_new_tokens} leave no room for a prompt in the "
                f"{helper.most_tokens} tokens that {helper.source.title} can read; lower it."
            )
        asked = Condition(PARAPHRASE, ScoreRange(0, 1))  # nothing is scored; prompts have a range
        rubric = Rubric(PARAPHRASE, (ASKED / "paraphrase.txt").read_text("utf-8").strip())
        tokenizer, options = helper.source.tokenizer(), resources.prompt.get("template_options")
        closed = helper.source.encoder_decoder
        builder = PromptBuilder(tokenizer, {PARAPHRASE: rubric}, room, template_options=options, closed=closed)
        prompts = builder.build(texts.examples, [asked])
        view = resources.view(helper.source, helper.engine)
        pass_ = WritePass(view, tokenizer, [Text(prompt) for prompt in prompts], self.max_new_tokens)
        written = write(pass_, resources, helper.token_budget, "Paraphrasing")
        rewritten = {prompt.example.output: new.text for prompt, new in zip(prompts, written, strict=True) if new.text}
        record = {
            "defense": self.name,
            "dataset": resources.dataset,
            "helper": helper.source.title,
            "helper_sha256": view.fingerprint,
            "max_new_tokens": self.max_new_tokens,
            "texts": len(written),
            "empty": sum(not new.text for new in written),
            "cut": sum(new.cut for new in written),
        }
        text = math.fsum(new.seconds for new in written) / max(1, len(written))
        costs = {self.name: {"once": 0.0, "context": 0.0, "text": text}}
        return Paraphrase(rewritten, Findings(rewritings=[record], costs=costs))
