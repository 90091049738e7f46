import numpy as np
import torch

from judgebench.decoding.rules import Contrastive, Greedy
from judgebench.judges.engine.plain import PlainEngine, generate
from judgebench.judges.engine.prefix import PrefixEngine
from tests.judges.test_engine import model_of, prompts


def by_hand(model, assistant, ids, lambda_, stops, most):
    """Token by token, the whole text read anew for each."""
    text = ids.tolist()
    answer = []
    for _ in range(most):
        ours = model(torch.tensor([text])).logits[0, -1].float().log_softmax(-1)
        theirs = assistant(torch.tensor([text])).logits[0, -1].float().log_softmax(-1)
        token = int((ours - lambda_ * theirs).argmax())
        if token in stops:
            break
        answer.append(token)
        text.append(token)
    return answer


@torch.inference_mode()
def test_contrastive_generation_is_contrastive_at_every_token():
    model, other = model_of("llama"), model_of("qwen2")
    flat = [ids for group in prompts() for ids in group]
    expected = [by_hand(model_of("llama"), model_of("qwen2"), ids, 0.4, {7, 11}, 12) for ids in flat]
    main, assistant = PrefixEngine(model).start(prompts()), PrefixEngine(other).start(prompts())
    found = generate([main, assistant], lambda: (main.logits[0], assistant.logits[0]), Contrastive(0.4), {7, 11}, 12)
    assert found == expected
    assert any(found)


@torch.inference_mode()
def test_answers_end_at_their_stop_and_the_others_go_on():
    model = model_of("llama")
    alone = PlainEngine(model).start(prompts())
    free = generate([alone], lambda: (alone.logits[0], None), Greedy(), set(), 10)
    assert {len(answer) for answer in free} == {10}
    stop = free[0][3]
    main = PrefixEngine(model).start(prompts())
    stopped = generate([main], lambda: (main.logits[0], None), Greedy(), {stop}, 10)
    assert stopped == [answer[: answer.index(stop)] if stop in answer else answer for answer in free]
    assert len(stopped[0]) <= 3


@torch.inference_mode()
def test_lambda_zero_answers_as_greedy_does():
    model, other = model_of("llama"), model_of("qwen2")
    engine = PrefixEngine(model)
    plain, main, assistant = engine.start(prompts()), engine.start(prompts()), PrefixEngine(other).start(prompts())
    greedy = generate([plain], lambda: (plain.logits[0], None), Greedy(), {7}, 8)
    zero = generate([main, assistant], lambda: (main.logits[0], assistant.logits[0]), Contrastive(0.0), {7}, 8)
    assert zero == greedy
    assert all(isinstance(token, int) for token in np.concatenate(greedy).tolist())
