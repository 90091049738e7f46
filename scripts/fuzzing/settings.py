"""What a configuration may say: ranges, names of fields, keys that are secret, and whole command lines."""

from __future__ import annotations

import contextlib
import io
import math
import random
import sys
from typing import Any

from hydra.core.global_hydra import GlobalHydra

from fuzzing.chance import odd_text, odd_value
from fuzzing.target import Target, check_sentence, folder_of_cases, told
from judgebench.__main__ import main
from judgebench.data.fields import ScoredFields
from judgebench.judges.precomputed.replay import AnswerFields
from judgebench.runtime.secrets import argument_secrets, hider, masked_argument
from judgebench.settings.fields import settings_of
from judgebench.types import ScoreRange
from judgebench.words.errors import UserError


def _check_range(given: Any) -> None:
    try:
        found = ScoreRange.parse(given)
    except UserError as error:
        check_sentence(error)
        return
    assert found.values[0] == found.minimum
    assert found.values[-1] == found.maximum
    assert len(set(found.candidates)) == len(found.values)
    assert all(found.text(value) == text for text, value in zip(found.candidates, found.values, strict=True))
    if not found.labels:
        assert all(float(text) == value for text, value in zip(found.candidates, found.values, strict=True))


def _range_case(chance: random.Random) -> Any:
    if chance.random() < 0.3:
        return odd_value(chance)
    numbers = [0, 1, 2, 5, 10, -3, 0.1, 0.5, 0.25, 1e6, 1e7, 1e-9, 3.3, 10**400, math.nan, math.inf, True, "1", None]
    return [chance.choice(numbers) for _ in range(chance.choice([2, 2, 3, 3, 1, 4]))]


def _fields_case(chance: random.Random) -> Any:
    if chance.random() < 0.2:
        return odd_value(chance)
    keys = ["source", "output", "human", "example_id", "group_id", "system_id", "context", "text", "range", "odd"]
    return {chance.choice(keys): chance.choice(["a", "", None, 3, {"x": "y"}, {}, ["a"]]) for _ in range(5)}


def _check_fields(given: Any) -> None:
    told(lambda: ScoredFields.parse(given))
    told(lambda: settings_of(AnswerFields, given, "judge.fields"))


_SECRET = "sk-0123456789abcdef"
_KEYS = ["api_key", "judge.api_key", "+judge.token", "hf_token", "a/b@c.password", "OPENAI_API_KEY", "client-secret"]


def _argument_case(chance: random.Random) -> list[str]:
    key = chance.choice(_KEYS)
    shapes = [f"{key}={_SECRET}", f"judge={{{key.split('.')[-1].lstrip('+')}: {_SECRET}}}", f"++{key}='{_SECRET}'"]
    shapes += [f'{key}="{_SECRET}"', f"{key}={_SECRET}{odd_text(chance)}".replace("\n", "")]
    return [chance.choice(shapes), odd_text(chance), f"x={odd_text(chance)}"]


def _check_arguments(arguments: list[str]) -> None:
    shown = [masked_argument(one) for one in arguments]
    assert _SECRET not in shown[0], f"{shown[0]!r} shows the secret"
    assert _SECRET not in hider(argument_secrets(arguments))(f"Could not override: {arguments[0]}")


# fmt: off
_SETTINGS = [
    "ranges", "dimensions", "attacks", "defenses", "tables", "objective", "report", "metrics.levels", "metrics.seed",
    "metrics.resamples", "data.limit_groups", "data.dev_share", "data.seed", "judge.mode", "judge.engine",
    "judge.dtype", "judge.max_new_tokens", "judge.max_batch_tokens", "judge.path", "judge.gguf_file",
    "judge.trust_remote_code", "run_dir", "prompt.rubrics", "prompt.variants", "prompt.max_tokens", "prompt.truncate",
    "prompt.template_options", "store", "decoding", "assistant", "tune", "tutor", "attacks.0", "search", "logger",
    "trainer", "data", "decoding.lambda", "name", "decoding.temperature", "defenses.0", "search.shortlist",
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
    given = ["dry_run=true", "data.limit_groups=1", "trainer=cpu", f"run_dir={folder_of_cases() / 'never'}", *overrides]
    said, kept, code = io.StringIO(), sys.argv, 0
    sys.argv = ["judgebench", *given]
    GlobalHydra.instance().clear()
    try:
        with contextlib.chdir(folder_of_cases()), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = kept
    assert code in (0, 1, 2), f"exit code {code}"
    assert "Traceback" not in said.getvalue(), said.getvalue()
    assert not (folder_of_cases() / "never").exists()


TARGETS = (
    Target("ranges", 0.15, _range_case, _check_range),
    Target("fields", 0.12, _fields_case, _check_fields),
    Target("arguments", 0.08, _argument_case, _check_arguments),
    Target("overrides", 0.0002, _override_case, _check_overrides, seconds=30),
)
