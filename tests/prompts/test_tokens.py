"""What prompts share is tokenized once, and each prompt has the tokens of its whole text."""

import copy
import itertools
import random

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX as QWEN2

from judgebench.config.choices import FOLDER
from judgebench.data.benchmarks import Mini
from judgebench.prompts import tokens
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.prompts.tokens import _WORDS_MEET, cuts_between_words, encode_groups
from judgebench.types import Condition, Example, ScoreRange
from tests.models import tiny_t5_tokenizer
from tests.prompts.test_control import sentencepiece

LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = "|".join(
    [
        *(
            rf"[^\r\n\p{{L}}\p{{N}}]?{word}(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
            for word in (f"{UPPER}*{LOWER}+", f"{UPPER}+{LOWER}*")
        ),
        *(r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"),
    ]
)
PIECES = ["a", "Bc", " ", "  ", "\n", "\r\n", "\t", "'s", "'", "é", "e\u0301", "ß", "12", "3456", ".", "?!", "/", "-"]
PIECES += ["中文", "🙂", "<|end|>", " the quick brown fox", " I'll", "\u00a0", "\u2028", "ﬁ", "\u200b", "it was in a"]


def split_by(expression):
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), bytes_of])


def trained(steps, *, normalizer=None, name="<|end|>", **flags):
    """A tokenizer of a few hundred merges over the bytes of Mini's texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = steps
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, show_progress=False)
    data = Mini()
    data.setup()
    tokenizer.train_from_iterator([example.source for example in data.examples], trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True, **flags)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=name)


def digits_apart():
    steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return pre_tokenizers.Sequence(steps)


@pytest.fixture(scope="module")
def tokenizers(smollm2_tokenizer):
    return {
        "smollm2": smollm2_tokenizer,
        "digits": trained(digits_apart()),
        "qwen2": trained(split_by(QWEN2), normalizer=normalizers.NFC()),
        "llama3": trained(split_by(LLAMA3)),
        "gpt4o": trained(split_by(GPT4O)),
    }


NAMES = ["smollm2", "digits", "qwen2", "llama3", "gpt4o"]


@pytest.mark.parametrize("name", NAMES)
def test_before_a_space_between_letters_a_text_may_be_cut(tokenizers, name):
    tokenizer = tokenizers[name]
    assert cuts_between_words(tokenizer)
    draw = random.Random(0)
    texts = ["".join(draw.choices(PIECES, k=draw.randint(2, 25))) for _ in range(500)]
    cut = [(text, match.end()) for text in texts for match in _WORDS_MEET.finditer(text)]
    assert len(cut) > 300
    parts = [part for text, at in cut for part in (text, text[:at], text[at:])]
    rows = tokenizer(parts, add_special_tokens=False)["input_ids"]
    for i, (text, at) in enumerate(cut):
        whole, left, right = rows[3 * i : 3 * i + 3]
        assert left + right == whole, (text, at)


def conala():
    return instantiate(OmegaConf.load(FOLDER / "data" / "conala_sample.yaml"))


def odd():
    """Groups whose texts begin and end alike, say nothing, or forge a token's name."""
    draw = random.Random(1)
    sources = ["".join(draw.choices(PIECES, k=80)) for _ in range(12)]
    outputs = [["", "a", "a b", *("".join(draw.choices(PIECES, k=12)) for _ in range(4))] for _ in sources]
    return [
        Example(f"{group}/{i}", str(group), str(i), source, output, {})
        for group, source in enumerate(sources)
        for i, output in enumerate(outputs[group])
    ]


@pytest.mark.parametrize("data", [Mini, conala, odd])
@pytest.mark.parametrize("name", NAMES)
def test_prompts_have_the_tokens_of_their_whole_texts(tokenizers, name, data, monkeypatch):
    examples = data()
    if not isinstance(examples, list):
        examples.setup()
        examples = examples.examples[:100]
    rubrics = load_rubrics("summary", ["coherence", "fluency"])
    conditions = [Condition(dimension, ScoreRange(1, 5)) for dimension in rubrics]
    builder = PromptBuilder(tokenizers[name], rubrics, 8000)
    ours = builder.build(examples, conditions)
    builder._cuts = False
    theirs = builder.build(examples, conditions)
    assert len(ours) == 2 * len(examples)
    for one, other in zip(ours, theirs, strict=True):
        assert one.token_ids.dtype == other.token_ids.dtype
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert one.control_tokens == other.control_tokens


def test_an_articles_tokens_are_asked_for_once(smollm2_tokenizer, monkeypatch):
    asked = []
    tokenized = tokens.tokenized

    def counting(tokenizer, texts, *call, **options):
        asked.extend(texts)
        return tokenized(tokenizer, texts, *call, **options)

    monkeypatch.setattr(tokens, "tokenized", counting)
    article = "It was so, and the cat sat on the mat. " * 20
    groups = [[f"Rate it. {number} {article}{text} is all of it" for text in ("One", "Two")] for number in (1, 2)]
    rows = encode_groups(smollm2_tokenizer, groups, True)
    assert sum(map(len, asked)) < 1.2 * len("".join(groups[0][0] + groups[1][0]))
    monkeypatch.undo()
    for text, row in zip(itertools.chain(*groups), itertools.chain(*rows), strict=True):
        assert row.tolist() == smollm2_tokenizer(text, add_special_tokens=False)["input_ids"]
    assert encode_groups(smollm2_tokenizer, [["", ""]], True)[0][1].tolist() == []


def with_steps(steps, **options):
    return lambda _: trained(steps, **options)


def with_dropout(smollm2):
    tokenizer = copy.deepcopy(smollm2)
    tokenizer.backend_tokenizer.model.dropout = 0.1
    return tokenizer


@pytest.mark.parametrize(
    "make",
    [
        lambda _: tiny_t5_tokenizer(),
        lambda _: sentencepiece(),
        with_dropout,
        with_steps(pre_tokenizers.ByteLevel(add_prefix_space=True)),
        with_steps(split_by(r"(?<=a) ?\p{L}+|" + QWEN2)),
        with_steps(split_by(r"\p{L}+ \p{L}+|" + QWEN2)),
        with_steps(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)),
        with_steps(
            pre_tokenizers.Sequence(
                [
                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                    pre_tokenizers.Split(Regex(QWEN2), "isolated"),
                ]
            )
        ),
        with_steps(split_by(QWEN2), normalizer=normalizers.Prepend("_")),
        with_steps(split_by(QWEN2), name="a cat"),
        with_steps(split_by(QWEN2), name="end", rstrip=True),
        with_steps(split_by(QWEN2), name="end", single_word=True),
    ],
)
def test_a_tokenizer_of_which_that_is_not_known_gets_whole_texts(make, smollm2_tokenizer):
    assert not cuts_between_words(make(smollm2_tokenizer))
