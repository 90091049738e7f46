"""A tiny judge, a few texts, and the gaps behind them."""

from types import SimpleNamespace

import pytest
import torch

from judgebench.attacks.gaps import gaps_of
from judgebench.attacks.scoring import EngineExit, Objective, PhraseScorer
from judgebench.decoding import Contrastive, Expectation
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.prefix import PrefixEngine
from judgebench.prompts.builder import PromptBuilder
from judgebench.types import Condition, Example, ScoreRange
from tests.models import tiny_llama

RANGE = ScoreRange(1, 5)
CONDITION = Condition("coherence", RANGE)
EXAMPLES = [
    Example(f"{group}/{system}", group, system, f"{source} It happened on Monday.", output, {"coherence": 1.0})
    for group, source in (("bridge", "The old bridge was closed."), ("school", "A school lost its roof."))
    for system, output in (("copy", f"{source} "), ("wrong", "Nobody knows why; sharks were seen."))
]


@pytest.fixture(scope="session")
def builder(smollm2_tokenizer):
    config = {"rubrics": "summary", "variants": {}, "max_tokens": None, "truncate": "error", "template_options": None}
    return PromptBuilder.from_config(smollm2_tokenizer, config, ["coherence"], 4000)


@pytest.fixture(scope="session")
def gaps(builder):
    return gaps_of(builder, EXAMPLES, [CONDITION], 3)


@pytest.fixture(scope="session")
def tries(smollm2_tokenizer):
    return {RANGE: CandidateTrie.of(smollm2_tokenizer, RANGE.candidates)}


@pytest.fixture(scope="session")
def engines():
    """Main model with an early exit, and an assistant."""
    with torch.no_grad():
        main, assistant = (tiny_llama(seed).requires_grad_(False) for seed in (0, 1))
        return SimpleNamespace(
            main=PrefixEngine(main, (None, 2), 2**30), assistant=PrefixEngine(assistant, (None,), 2**30)
        )


@pytest.fixture(scope="session")
def scorer(engines, tries, gaps):
    return PhraseScorer(EngineExit(engines.main), None, Objective("expectation", Expectation()), tries, gaps, 512)


@pytest.fixture(scope="session")
def scorers(engines, tries, gaps, builder, scorer):
    """By kind of assistant, and the plain one."""
    objective = Objective("contrastive", Contrastive(0.7, 1.5, rule="expectation"))
    nulls = {CONDITION: builder.null(CONDITION).token_ids}
    main = EngineExit(engines.main)
    others = {
        "model": EngineExit(engines.assistant),
        "early_exit": EngineExit(engines.main, 1),
        "null_context": EngineExit(engines.main, 0, nulls),
    }
    return {"none": scorer} | {
        kind: PhraseScorer(main, other, objective, tries, gaps, 512) for kind, other in others.items()
    }
