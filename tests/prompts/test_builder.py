import copy

import pytest

from judgebench.errors import UserError
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import load_rubrics
from judgebench.types import Condition, Example, ScoreRange

CONDITION = Condition("coherence", ScoreRange(1, 5))
RUBRICS = load_rubrics("summary", ["coherence"])


def examples(words=30):
    article = " ".join(f"word{i}" for i in range(words))
    return [Example(f"a/{i}", "a", str(i), article, f"Summary number {i}.", {}) for i in range(3)]


def builder(tokenizer, limit=2000, **options):
    return PromptBuilder(tokenizer, RUBRICS, limit, **options)


def test_chat_template_is_applied_once_and_recorded_exactly(smollm2_tokenizer):
    prompt = builder(smollm2_tokenizer).build(examples(), [CONDITION])[0]
    assert prompt.text.count("<|im_start|>user") == 1
    assert prompt.text.endswith("no other text.<|im_end|>\n<|im_start|>assistant\n")
    assert smollm2_tokenizer.decode(prompt.token_ids.tolist()) == prompt.text


def test_bos_is_never_doubled(smollm2_tokenizer):
    ids = builder(smollm2_tokenizer).build(examples(), [CONDITION])[0].token_ids.tolist()
    assert ids[0] == smollm2_tokenizer.bos_token_id
    assert ids[1] != smollm2_tokenizer.bos_token_id


def test_without_a_template_the_text_stands_plain_with_the_tokenizers_own_bos(smollm2_tokenizer):
    from tokenizers.processors import TemplateProcessing

    plain = copy.deepcopy(smollm2_tokenizer)
    plain.chat_template = None
    prompt = builder(plain).build(examples(), [CONDITION])[0]
    assert prompt.text.startswith("You will be given one summary")
    bos = plain.bos_token
    plain._tokenizer.post_processor = TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, plain.bos_token_id)])
    with_bos = builder(plain).build(examples(), [CONDITION])[0]
    assert with_bos.text == bos + prompt.text
    assert with_bos.token_ids.tolist() == [plain.bos_token_id, *prompt.token_ids.tolist()]


def test_a_group_shares_its_prefix_and_nothing_of_an_examples_own(smollm2_tokenizer):
    prompts = builder(smollm2_tokenizer).build(examples(), [CONDITION])
    assert len({prompt.prefix for prompt in prompts}) == 1
    assert [prompt.tail[:17] for prompt in prompts] == [f"Summary number {i}." for i in range(3)]


def test_groups_come_together_whatever_the_order(smollm2_tokenizer):
    first, second = examples()[:2], [Example(f"b/{i}", "b", str(i), "B.", "S.", {}) for i in range(2)]
    mixed = [first[0], second[0], first[1], second[1]]
    built = builder(smollm2_tokenizer).build(mixed, [CONDITION])
    assert [prompt.example.example_id for prompt in built] == ["a/0", "a/1", "b/0", "b/1"]


def test_too_long_a_prompt_names_example_and_tokens(smollm2_tokenizer):
    with pytest.raises(
        UserError, match=r"example a/0 \(coherence, 1-5\) has \d+ tokens, .* at most 400; .*truncate=source"
    ):
        builder(smollm2_tokenizer, 400).build(examples(500), [CONDITION])


def test_truncation_shortens_the_article_alone_and_says_by_how_much(smollm2_tokenizer):
    whole = builder(smollm2_tokenizer, 10**6).build(examples(500), [CONDITION])
    cut = builder(smollm2_tokenizer, 600, truncate="source").build(examples(500), [CONDITION])
    for before, after in zip(whole, cut, strict=True):
        assert len(after.token_ids) <= 600 < len(before.token_ids)
        assert after.source_tokens_cut > 0
        assert before.source_tokens_cut == 0
        assert after.tail == before.tail
        kept = after.prefix.split("Source Text:\n\n")[1].split("\n\nSummary:")[0]
        assert examples(500)[0].source.startswith(kept)
        assert after.prefix.split("Source Text:")[0] == before.prefix.split("Source Text:")[0]
    assert len({after.prefix for after in cut}) == 1
    assert max(len(after.token_ids) for after in cut) > 590


def test_a_prompt_that_no_truncation_saves_is_told(smollm2_tokenizer):
    with pytest.raises(UserError, match="does not fit even without its article"):
        builder(smollm2_tokenizer, 100, truncate="source").build(examples(), [CONDITION])


def test_the_null_prompt_keeps_the_rubric_and_says_nothing_else(smollm2_tokenizer):
    null = builder(smollm2_tokenizer).null(CONDITION)
    assert "Source Text:\n\n\n\nSummary:\n\n\n\nEvaluation Form" in null.text
    assert "Coherence (1-5)" in null.text


def test_template_options_reach_the_template(smollm2_tokenizer):
    dated = copy.deepcopy(smollm2_tokenizer)
    dated.chat_template = "{{ date_string }}|{{ messages[0]['content'] | trim }}|"
    prompt = builder(dated, template_options={"date_string": "26 Jul 2024"}).build(examples(), [CONDITION])[0]
    assert prompt.text.startswith("26 Jul 2024|You will")


def test_a_template_that_changes_the_text_is_refused(smollm2_tokenizer):
    shouting = copy.deepcopy(smollm2_tokenizer)
    shouting.chat_template = "{{ messages[0]['content'] | upper }}"
    with pytest.raises(UserError, match="changes the text"):
        builder(shouting).build(examples(), [CONDITION])


def test_an_unknown_truncation_is_told(smollm2_tokenizer):
    with pytest.raises(UserError, match=r"prompt\.truncate: 'tail' is not one of error, source"):
        builder(smollm2_tokenizer, truncate="tail")
