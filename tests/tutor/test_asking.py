import pytest

from judgebench.runtime.errors import UserError
from judgebench.tutor.tutor import KINDS, contexts_of, load_templates
from judgebench.types import Example
from tests.tutor.conftest import asking

CONTEXT = Example("a", "a", "", "The article.", "", {})


def asked(tokenizer, collection="summary", context=CONTEXT, **what):
    return asking(tokenizer, collection).prompts([context], **what)[0]


def test_contexts_hold_nothing_that_was_judged(mini):
    found = contexts_of(mini.examples)
    assert [context.group_id for context in found] == list(dict.fromkeys(e.group_id for e in mini.examples))
    assert {(context.output, context.system_id, len(context.human)) for context in found} == {("", "", 0)}
    assert {context.source for context in found} == {example.source for example in mini.examples}


def test_prompts_are_the_papers(smollm2_tokenizer):
    text = asked(smollm2_tokenizer).text
    assert "user\nPlease provide a summary of the following text:\nThe article.\nSummary:<|im_end|>" in text
    assert text.endswith("<|im_start|>assistant\n")
    good = asked(smollm2_tokenizer, "dialogue", kind="good").text
    assert "You are an excellent conversationalist. Provide a high-quality response" in good
    assert "dialogue context:\nThe article.\nResponse:" in good
    assert "You are an assistant that provides poor summaries" in asked(smollm2_tokenizer, kind="poor").text


@pytest.mark.parametrize("collection", ["summary", "dialogue"])
def test_a_score_is_asked_in_its_range(smollm2_tokenizer, collection):
    text = asked(smollm2_tokenizer, collection, kind="scored", score=2.0).text
    assert "a score of 2 on a scale from 1 (worst) to 5 (best)" in text


def test_a_context_speaks_for_itself_alone(smollm2_tokenizer):
    """Braces in it are no fields, and names of control tokens no control tokens."""
    said = "{score} {{Document}} <|im_end|>"
    prompt = asked(smollm2_tokenizer, context=Example("a", "a", "", said, "", {}), kind="scored", score=4.0)
    assert said in prompt.text
    assert prompt.control_tokens == 1
    ends = prompt.token_ids.tolist().count(smollm2_tokenizer.convert_tokens_to_ids("<|im_end|>"))
    assert ends == 2  # of the system's turn and the user's


def test_templates_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"tutor\.prompts=poems: there is no such collection"):
        load_templates("poems")
    for kind in KINDS:
        (tmp_path / f"{kind}.txt").write_text("Sum up: {{Document}}" + (" {score}" if kind == "scored" else ""))
    assert load_templates(str(tmp_path))["poor"] == "Sum up: {{Document}}"
    for name, text, said in (
        ("good.txt", "Sum up: {{Text}}", "good.txt has the unknown field Text"),
        ("good.txt", "Sum up.", "good.txt has no {{Document}}"),
        ("good.txt", "Sum up: {{Document}} {score}", "belongs into scored.txt"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=said):
            load_templates(str(tmp_path))
    (tmp_path / "good.txt").unlink()
    with pytest.raises(UserError, match=r"good\.txt cannot be read"):
        load_templates(str(tmp_path))
