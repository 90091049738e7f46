"""A run as a whole: what it would read, what people read of judges behind a URL, and its environment."""

import io
import subprocess

import numpy as np
import pytest
from rich.console import Console

from judgebench.judges.served.settings import unpaid
from judgebench.report.views.run import dry_run_view
from judgebench.results.folder import code_version, describe_environment
from judgebench.results.served import served_notes
from judgebench.types import Condition, Example, Prompt, ScoreRange

EXACT = "<|im_start|>user\nScore [1] it :smile: [bold]now[/bold].  \n" + "A sentence of the article. " * 30 + "x" * 250
EXACT += "\n\n\ttab, trailing blanks   \n全角文字 " + "字" * 90 + "\nScore:"


def printed(prompts, tokens, width):
    file = io.StringIO()
    Console(file=file, width=width).print(dry_run_view(prompts, tokens, {"main": "m", "assistant": None}))
    return file.getvalue()


def prompt(condition, text, number=0):
    example = Example(f"e{number}", "g", "s", "", "", {"coherence": 1.0})
    return Prompt(example, condition, text[:5], text[5:], np.arange(7, dtype=np.int32))


@pytest.mark.parametrize("width", [40, 100, 2000])
def test_the_first_prompt_is_printed_to_the_letter(width):
    condition = Condition("coherence", ScoreRange(1, 5))
    text = printed([prompt(condition, EXACT)], {condition: (7, 5)}, width)
    assert text.endswith(f"\n{EXACT}\n")


def test_conditions_and_their_tokens_stand_above():
    conditions = [Condition("coherence", ScoreRange(1, top)) for top in (5, 10)]
    prompts = [prompt(condition, f"{condition}", i) for condition in conditions for i in range(2)]
    lines = printed(prompts, dict(zip(conditions, [(14, 9), (1400, 900)], strict=True)), 100).splitlines()
    rows = [line.split() for line in lines if line.strip().startswith(("coherence ", "all"))]
    assert rows == [
        ["coherence", "1-5", "none", "none", "2", "14", "9", "7"],
        ["coherence", "1-10", "none", "none", "2", "1,400", "900", "7"],
        ["all", "4", "1,414", "909"],
    ]
    assert sum("first prompt" in line for line in lines) == 2


MAIN = {"scores_from": "logprobs", "requests": 3, "failures": {"429": 2}, "cost": 0.25, "conditions": ["kept"]}
SERVED = {"main": MAIN, "cost": 0.3, "max_cost": 1.0}


def test_notes_for_a_table():
    assert served_notes(SERVED) == {"judgebench.main.scores_from": "logprobs"}
    assert served_notes(None) is None


def test_a_run_that_uses_what_another_has_read_paid_nothing():
    told = unpaid(SERVED)
    assert (told["cost"], told["main"]["cost"], told["main"]["requests"], told["main"]["failures"]) == (0.0, 0.0, 0, {})
    assert told["main"]["conditions"] == MAIN["conditions"]
    assert told["max_cost"] == 1.0


def _git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.hooksPath=/dev/null"]
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_checkout_has_its_commit_and_says_whether_it_was_changed(tmp_path):
    package = tmp_path / "judgebench"
    package.mkdir()
    (package / "__init__.py").write_text("")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-q", "-m", "first")
    commit = _git(tmp_path, "rev-parse", "HEAD")
    assert code_version(package) == (commit, False)
    (package / "__init__.py").write_text("changed = 1")
    assert code_version(package) == (commit, True)


def test_installed_package_inside_a_strangers_repository_has_no_commit(tmp_path):
    package = tmp_path / ".venv" / "judgebench"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "commit", "-q", "--allow-empty", "-m", "a stranger's")
    assert code_version(package) == (None, None)


def test_environment_names_the_packages_that_matter():
    environment = describe_environment(device="cpu", model_fingerprints={}, seconds={}, tokens={})
    assert {"torch", "transformers", "lightning", "numpy", "scipy"} <= set(environment["packages"])
    assert environment["python"].startswith("3.")
