"""The prefix engine gives what plain forward passes give, for every architecture that people judge with."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tf

from judgebench.decoding.rules import Contrastive, Greedy
from judgebench.judges.engine import kernels, packing
from judgebench.judges.engine.candidates import CandidateTrie
from judgebench.judges.engine.generate import generate
from judgebench.judges.engine.kernels import AttentionOptions, attend, attend_masked, attend_plain, merge_into
from judgebench.judges.engine.plain import Head, PlainEngine, check_head
from judgebench.judges.engine.prefix import PrefixEngine, check_packing
from judgebench.judges.local import passes
from judgebench.judges.local.loading import ModelSource
from judgebench.judges.local.passes import LikelihoodPass, ModelView, engine_for
from judgebench.readings.store import ReadingStore
from judgebench.words.errors import UserError

SIZES = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
HEAD = {"head_dim": 16}
CONFIGS = {
    "llama": tf.LlamaConfig(**SIZES),
    "qwen2": tf.Qwen2Config(**SIZES),
    "qwen2_window": tf.Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=12, max_window_layers=2),
    "qwen3": tf.Qwen3Config(**SIZES, **HEAD),
    "mistral": tf.MistralConfig(**SIZES, sliding_window=None),
    "mistral_window": tf.MistralConfig(**SIZES, sliding_window=16),
    "mixtral": tf.MixtralConfig(**SIZES),
    "gemma": tf.GemmaConfig(**SIZES, **HEAD),
    "gemma2": tf.Gemma2Config(**SIZES, **HEAD, sliding_window=16),
    "gemma3": tf.Gemma3TextConfig(**SIZES, **HEAD, sliding_window=16),
    "phi": tf.PhiConfig(**SIZES),
    "phi3": tf.Phi3Config(**SIZES),
    "granite": tf.GraniteConfig(**SIZES, logits_scaling=3.0),
    "cohere": tf.CohereConfig(**SIZES),
    "gpt_oss": tf.GptOssConfig(
        **SIZES,
        **HEAD,
        num_local_experts=4,
        sliding_window=16,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    ),
    "gpt2": tf.GPT2Config(vocab_size=300, n_embd=64, n_layer=4, n_head=4, bos_token_id=1, eos_token_id=2),
}
# "1" goes on to "10", "2" to "2.5"; each also after a leading token 9
TRIE = CandidateTrie(["1", "2", "2.5", "10"], [[(1,), (9, 1)], [(2,), (9, 2)], [(2, 7, 5)], [(1, 0), (9, 1, 0)]])


def model_of(name, dtype=torch.float32):
    return large_weights(tf.AutoModelForCausalLM, CONFIGS[name], dtype)


def large_weights(kind, config, dtype, seed=0):
    torch.manual_seed(seed)
    model = kind.from_config(copy.deepcopy(config), dtype=dtype).eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.normal_(0, 0.2)  # larger than at initialisation, so that a wrong mask shows
    return model


def prompts():
    draw = np.random.default_rng(1)

    def tokens(count):
        return draw.integers(3, 300, count).tolist()

    rubric = tokens(30)
    return [
        [np.array(rubric + article + tokens(int(draw.integers(1, 12)))) for _ in range(count)]
        for count in (3, 1, 2)
        for article in [tokens(25)]
    ]


@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_packed_reading_is_plain_reading(name):
    model = model_of(name)
    packed, plain = PrefixEngine(model, (None, 2)), PlainEngine(model, (None, 2))
    for ours, theirs in zip(packed.read(prompts(), TRIE), plain.read(prompts(), TRIE), strict=True):
        assert ours.shape == (6, 4)
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


CHAIN = CandidateTrie(["1", "2"], [[(1,), (9, 1)], [(2,), (9, 2)]])


def varlen(q, k, v, query_ends, key_ends, most_queries, most_keys, *, scale, window_size, seqused_k, **_):
    """PyTorch's variable-length attention, stretch by stretch; +inf is what its kernel says where there are no keys."""
    out, lse = torch.zeros_like(q), torch.full((q.shape[1], q.shape[0]), float("inf"))
    if most_queries == 1 and window_size == (-1, -1):  # the kernel then takes each stretch to have a query
        assert len(q) == len(query_ends) - 1
    for i, (q0, q1, k0, k1) in enumerate(zip(query_ends, query_ends[1:], key_ends, key_ends[1:], strict=False)):
        k1 = k1 if seqused_k is None else k0 + seqused_k[i]
        if q1 > q0 and k1 > k0:
            parts = (x[None].transpose(1, 2) for x in (q[q0:q1], k[k0:k1], v[k0:k1]))
            each, lse[:, q0:q1] = attend_plain(*parts, scale, window_size == (-1, 0))
            out[q0:q1] = each[0].transpose(0, 1)
    return out, lse


@pytest.mark.parametrize("name", ["llama", "qwen2_window", "phi", "gpt_oss"])
@pytest.mark.parametrize(("kernel", "kept"), [("varlen", 0), ("varlen", 1), ("plain", 0)])
@torch.inference_mode()
def test_the_paths_of_gpus_read_the_same(name, kernel, kept, monkeypatch):
    """Variable-length attention, or attention written out, a few products at a time."""
    model = model_of(name)
    engine = PrefixEngine(model)
    ours = [engine.read(prompts(), trie)[0] for trie in (TRIE, CHAIN)]
    alone = [[np.arange(3, 3 + n), np.arange(90, 90 + n)] for n in (5, 8)]  # these share nothing with each other
    apart = engine.read(alone, TRIE)[0]
    if kernel == "varlen":
        monkeypatch.setattr(kernels, "varlen_fits", lambda *_: True)
        monkeypatch.setattr(kernels, "varlen_attn", varlen)
    else:
        monkeypatch.setattr(kernels, "attend", attend_plain)
        monkeypatch.setattr(kernels, "CHUNK_BYTES", 4096)
    for trie, expected in zip((TRIE, CHAIN), ours, strict=True):
        torch.testing.assert_close(engine.read(prompts(), trie)[0], expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(engine.read(alone, TRIE)[0], apart, atol=1e-4, rtol=0)
    plain, packed = PlainEngine(model).start(prompts()), engine.start(prompts())
    for step in range(3):
        tokens = plain.logits[0].argmax(-1)
        packed.step(tokens)
        plain.step(tokens)
        if step == 1:
            packed.keep(torch.tensor([0, 4, 5])[: 3 - kept])  # the second group's only answer has ended
            plain.keep(torch.tensor([0, 4, 5])[: 3 - kept])
    torch.testing.assert_close(packed.logits[0].log_softmax(-1), plain.logits[0].log_softmax(-1), atol=3e-4, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_packed_generation_is_plain_generation(name):
    model = model_of(name)
    packed, plain = PrefixEngine(model, (None, 2)).start(prompts()), PlainEngine(model, (None, 2)).start(prompts())
    for step in range(70 if name == "llama" else 5):  # the first room for keys is of 64
        for ours, theirs in zip(packed.logits, plain.logits, strict=True):
            torch.testing.assert_close(ours.log_softmax(-1), theirs.log_softmax(-1), atol=3e-4, rtol=0)
        if step == 2:  # the second and third answers, and the last, are complete
            packed.keep(torch.tensor([0, 3, 4]))
            plain.keep(torch.tensor([0, 3, 4]))
        tokens = plain.logits[0].argmax(-1)
        packed.step(tokens)
        plain.step(tokens)


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


@pytest.mark.parametrize("lambda_", [0.0, 0.4])
@torch.inference_mode()
def test_contrastive_generation_is_contrastive_at_every_token(lambda_):
    model, other = model_of("llama"), model_of("qwen2")
    flat = [ids for group in prompts() for ids in group]
    stops = {7, 11, by_hand(model_of("llama"), model_of("qwen2"), flat[0], lambda_, {7, 11}, 4)[-1]}  # some end early
    expected = [by_hand(model_of("llama"), model_of("qwen2"), ids, lambda_, stops, 12) for ids in flat]
    main, assistant = PrefixEngine(model).start(prompts()), PrefixEngine(other).start(prompts())
    assert generate(main, Contrastive(lambda_), stops, 12, assistant) == expected
    assert len({len(answer) for answer in expected}) > 1
    if lambda_ == 0:
        assert generate(PrefixEngine(model_of("llama")).start(prompts()), Greedy(), stops, 12) == expected


def test_check_refuses_a_model_that_reads_more_than_its_context():
    model = model_of("llama")
    engine = PrefixEngine(model)
    layer = model.model.layers[1].mlp
    plain = layer.forward
    # something that sees the whole row, as a packed row must never be seen
    layer.forward = lambda states: plain(states) + states.mean(dim=1, keepdim=True)
    with pytest.raises(UserError, match=r"judge\.engine=plain"):
        check_packing(engine)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "mistral_window", "mixtral"])
def test_check_refuses_branches_that_see_each_other(name, dtype, monkeypatch):
    check_packing(PrefixEngine(model_of(name, dtype)))

    def seen_by_all(*given, **options):
        packed = packing.pack_prompts(*given, **options)
        return replace(packed, ancestry=torch.ones_like(packed.ancestry))

    monkeypatch.setattr("judgebench.judges.engine.prefix.pack_prompts", seen_by_all)
    with pytest.raises(UserError, match=r"judge\.engine=plain"):
        check_packing(PrefixEngine(model_of(name, dtype)))


@torch.inference_mode()
def test_what_is_asked_next_is_packed_once_and_read_alike(monkeypatch):
    engine = PrefixEngine(model_of("llama"))
    first, second = prompts(), prompts()[1:]
    root = first[0][0][:30]
    expected = engine.read(second, TRIE, root)[0]
    packed = []
    monkeypatch.setattr(
        "judgebench.judges.engine.prefix.pack_prompts",
        lambda *given, **options: packed.append(1) or packing.pack_prompts(*given, **options),
    )
    engine.read(first, TRIE, root, (second, TRIE, root))
    assert len(packed) == 1, "on the CPU nothing is gained"
    engine._ready = second, packing.pack_prompts(second, TRIE.branches, len(root), join_root=True)
    assert torch.equal(engine.read(second, TRIE, root)[0], expected)
    assert len(packed) == 1
    assert torch.equal(engine.read(second, TRIE, root)[0], expected)
    assert len(packed) == 2


def test_state_space_models_are_refused_and_read_plainly():
    model = tf.MambaForCausalLM(tf.MambaConfig(vocab_size=300, hidden_size=64, num_hidden_layers=2)).eval()
    with pytest.raises(UserError, match=r"judge\.engine=plain"):
        PrefixEngine(model)


@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_the_head_is_the_models_own(name):
    model = model_of(name)
    ids = torch.tensor([prompts()[0][0].tolist()])
    head = Head(model)
    with head.capturing() as captured:
        own = model(ids).logits[0].log_softmax(-1)
    torch.testing.assert_close(head.logits(captured()[0][0]).log_softmax(-1), own, atol=1e-4, rtol=0)
    check_head(model)


def test_a_model_that_bends_its_logits_unknown_to_us_is_refused():
    model = model_of("llama")
    plain = model.lm_head.forward
    model.lm_head.forward = lambda states: 2.0 * plain(states)
    with pytest.raises(UserError, match="does something to its logits"):
        check_head(model)


def test_an_exit_beyond_the_layers_is_refused():
    with pytest.raises(UserError, match="not between 1 and 3"):
        PrefixEngine(model_of("llama"), (None, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_kernel_is_attention_written_out(dtype, causal):
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 6, 9, 16), torch.randn(2, 2, 9, 16), torch.randn(2, 2, 9, 16)
    given = [x.to(dtype) for x in (query, key, value)]
    bias = torch.where(torch.rand(2, 1, 9, 9) < 0.3, -1e9, 0.0).to(dtype) if not causal else None
    out, lse = attend(*given, 0.3, causal, bias)
    expected, expected_lse = attend_plain(
        *[x.float() for x in given], 0.3, causal, None if bias is None else bias.float()
    )
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(out.float(), expected, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(lse, expected_lse, atol=tolerance, rtol=tolerance)
    assert out.dtype == dtype


def test_merging_the_parts_is_attending_to_the_whole():
    torch.manual_seed(0)
    query, key, value = torch.randn(1, 6, 5, 16), torch.randn(1, 2, 12, 16), torch.randn(1, 2, 12, 16)
    parts = [
        attend(query, key[:, :, part], value[:, :, part], 0.3) for part in (slice(0, 3), slice(3, 7), slice(7, 12))
    ]
    parts.insert(1, (torch.zeros_like(query), torch.full(query.shape[:-1], float("-inf"))))  # no keys
    ours, sinks = torch.empty_like(query), torch.randn(6)
    whole, lse = attend(query, key, value, 0.3)
    merge_into(ours, parts)
    torch.testing.assert_close(ours, whole, atol=1e-6, rtol=1e-5)
    merge_into(ours, parts, sinks)
    share = torch.exp(lse) / (torch.exp(lse) + torch.exp(sinks)[:, None])
    torch.testing.assert_close(ours, whole * share[..., None], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("offset", [32.0, 130.0])
def test_large_products_are_not_rounded_in_half_precision(dtype, offset):
    """Qwen2's first layers have queries and keys far from 0: products reach 140,000, which bfloat16 rounds to 512 and
    float16 does not hold."""
    torch.manual_seed(0)
    query, key = ((torch.randn(1, heads, 40, 64) + offset).to(dtype) for heads in (4, 2))
    value = torch.randn(1, 2, 40, 64).to(dtype)
    scale = 64**-0.5
    exact = [x.double() for x in (query, key, value)]
    scores = torch.einsum("hqd,hkd->hqk", exact[0][0], exact[1][0].repeat_interleave(2, 0)) * scale
    scores = scores.masked_fill(~torch.ones(40, 40, dtype=torch.bool).tril(), float("-inf"))
    expected = torch.softmax(scores, -1) @ exact[2][0].repeat_interleave(2, 0)
    out, lse = attend_plain(query, key, value, scale, causal=True)
    tolerance = 4e-3 if dtype == torch.float16 else 2e-2
    assert (out[0].double() - expected).abs().max() < tolerance * expected.abs().max()
    torch.testing.assert_close(lse[0].double(), torch.logsumexp(scores, -1), atol=2e-2, rtol=1e-6)
    masked = attend_masked(query, key, value, AttentionOptions(scale), torch.ones(40, 40, dtype=torch.bool).tril())
    torch.testing.assert_close(masked, out, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("length", [4, 30])
@pytest.mark.parametrize("name", ["llama", "mistral_window", "gemma2", "gpt_oss"])
@torch.inference_mode()
def test_a_root_read_apart_changes_nothing(name, length):
    engine = PrefixEngine(model_of(name))
    root = prompts()[0][0][:length]
    for trie in (TRIE, CHAIN):
        whole = engine.read(prompts(), trie, root=np.zeros(0, np.int32))[0]
        first = engine.read(prompts(), trie, root=root)[0]
        alone = torch.cat([engine.read([group], trie, root=root)[0] for group in prompts()])
        torch.testing.assert_close(first, whole, atol=1e-5, rtol=0)
        torch.testing.assert_close(alone, whole, atol=1e-5, rtol=0)


def test_a_root_shorter_than_the_tails_is_seen_with_the_article_in_one_call():
    packed = packing.pack_prompts(prompts(), TRIE.branches, 4, join_root=True)
    joined = [call.keys for call in packed.parts if None in call.keys and len(call.keys) > 1]
    assert joined == [sum(((None, group.shared) for group in packed.groups), ())] * 2  # tails, branches
    assert [call.rows.stop for call in packed.parts if call.keys == (None,)] == [packed.groups[-1].shared.stop]
    long = packing.pack_prompts(prompts(), TRIE.branches, 30, join_root=True)
    assert long.parts == packing.pack_prompts(prompts(), TRIE.branches, 30).parts


@pytest.mark.parametrize("engine", ["prefix", "plain"])
def test_a_model_that_stays_in_memory_is_tried_once(engine):
    """A trial takes longer than a short text, and a judge may be asked about texts one by one."""
    model = tf.LlamaForCausalLM(copy.deepcopy(CONFIGS["llama"])).eval()
    passes = []
    model.model.register_forward_hook(lambda *_: passes.append(1))
    source = ModelSource("nowhere/mine")
    engine_for(model, [ModelView(source, "", engine)])
    tried = len(passes)
    assert tried > 0
    engine_for(model, [ModelView(source, "", engine)])
    assert len(passes) == tried
    engine_for(model, [ModelView(source, "", engine, exit=2)])
    assert len(passes) > tried, "another exit is another trial"


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Starts a reading with a model that is loaded anew, and gives the forward passes of its trial."""
    monkeypatch.setattr(ModelSource, "config", lambda self: CONFIGS["llama"])
    monkeypatch.setattr(ModelSource, "effective_dtype", lambda self: "float32")

    def start(fingerprint="A", engine="prefix", check="once", store=None):
        model = tf.LlamaForCausalLM(copy.deepcopy(CONFIGS["llama"])).eval()
        counted = []
        model.model.register_forward_hook(lambda *_: counted.append(1))
        source = ModelSource("nowhere/mine")
        pass_ = LikelihoodPass(ModelView(source, fingerprint, engine, check=check), [])
        opened = store or ReadingStore(tmp_path / "s")
        pass_.prepare({source: model}, opened)
        assert len(pass_.engines) == 1
        return len(counted)

    return start


def test_what_is_proven_once_is_not_proven_at_every_start(started, monkeypatch):
    assert started() > 0
    assert started() == 0
    assert started(check="always") > 0
    assert started(fingerprint="B") > 0
    assert started(engine="plain") > 0
    assert started(engine="plain") == 0
    for place, name in ((passes.transformers, "__version__"), (passes.torch, "__version__")):
        monkeypatch.setattr(place, name, "0.0")
        assert started() > 0, "other versions"
        assert started() == 0
    monkeypatch.setattr(passes.torch.cpu, "get_capabilities", lambda: {"cpu_name": "another"})
    assert started() > 0
    monkeypatch.setattr(passes, "_code", lambda: "another engine")
    assert started() > 0
    assert started() == 0
    for _ in range(2):
        assert started(store=ReadingStore(Path(":memory:"))) > 0, "store=none holds nothing"


def test_a_proof_that_failed_is_not_kept(started, monkeypatch):
    monkeypatch.setattr(passes, "check_packing", lambda engine: (_ for _ in ()).throw(UserError("other numbers")))
    for _ in range(2):
        with pytest.raises(UserError, match="other numbers"):
            started()
    monkeypatch.undo()
