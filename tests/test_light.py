"""What takes seconds is imported by what needs it: a mistake is named before, and judges that are no model here do
without torch, in a process and in an installation."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from judgebench.config.choices import COMMANDS

REPOSITORY = Path(__file__).resolve().parents[1]

HEAVY = ("torch", "lightning", "transformers", "matplotlib", "sklearn", "wandb", "optuna")
"""Modules that a mistaken command may not import."""

SLOW = ("pandas",)
"""Modules that take long to import, which only mistakes in data may cost."""

PROGRAM = """
import json, runpy, sys
never, commands = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for module, *words in commands:
    sys.argv = [module, *words]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    imported = [name for name in never if name in sys.modules]
    print(f"ended {code} {' '.join(imported)}", *words[:1], flush=True)
    print(f"ended {module}", file=sys.stderr, flush=True)
"""


def ended(folder, never, *commands, python=sys.executable, **environment):
    """Runs commands one after the other in one new process: of each its exit code, which of `never` had been imported
    at its end, and what it said."""
    asked = [python, "-c", PROGRAM, json.dumps(never), json.dumps([list(map(str, one)) for one in commands])]
    where = {**os.environ, **environment}
    done = subprocess.run(asked, cwd=folder, env=where, capture_output=True, text=True, timeout=120, check=False)
    ends = re.findall(r"^ended (\d+) (.*)$", done.stdout, re.MULTILINE)
    assert len(ends) == len(commands), done.stdout + done.stderr
    said = re.split(r"^ended .*$", done.stderr, flags=re.MULTILINE)
    return [(int(code), imported, text) for (code, imported), text in zip(ends, said, strict=False)]


OWN = ("judgebench", "data=jsonl", "data.scale=[1,5]", "dimensions=[quality]")

MISTAKES = [
    (("judgebench", "--help"), ""),
    (("judgebench", "judge=locl"), "there is no judge 'locl'"),
    (("judgebench", "metrics.resamples=-1", "pairwise.prior=-1"), "metrics.resamples: -1"),
    ((*OWN, "data.path=none.jsonl"), "there is no such file"),
    ((*OWN, "data.path=lacks.jsonl"), "lacks.jsonl: no field 'output' (the judged text)"),
    (("judgebench", "defenses=[nothing]", "pairwise.prior=-1", "prompt.rubrics=nowhere"), "defenses: there is no"),
    (("judgebench.command.calibrate",), "usage"),
]
IN_DATA = [
    (("judgebench", "+exp=demo", "ranges=[[7,9]]"), "answers under quality, 7-9"),
    (("judgebench.command.score", "card=card.yaml", "data.path=lacks.jsonl"), "looks like the judged texts"),
    (("judgebench.command.gate", "card=nowhere.yaml", "data.path=mine.jsonl"), "there is no such file"),
    (("judgebench.command.record", "nowhere", "out=readings.parquet"), "nowhere"),
    (("judgebench.command.store", "verify", "nowhere"), "nowhere"),
]


@pytest.mark.parametrize(("mistakes", "never"), [(MISTAKES, (*HEAVY, *SLOW)), (IN_DATA, HEAVY)])
def test_a_mistake_is_named_before_heavy_modules_are_imported(mistakes, never, tmp_path):
    (tmp_path / "lacks.jsonl").write_text(json.dumps({"source": "An article.", "quality": 1}) + "\n")
    (tmp_path / "card.yaml").write_text("format: judgebench judge card 1\n")
    commands = [command for command, _ in mistakes]
    for (command, message), (code, imported, said) in zip(mistakes, ended(tmp_path, never, *commands), strict=True):
        assert (code, imported.split(" ")[0]) == (0 if "--help" in command else 2, ""), (command, imported, said)
        assert message in said


NEVER = ("torch", "lightning", "transformers", "sklearn", "statsmodels", "scipy.stats")
NEVER += ("matplotlib", "wandb", "optuna")
"""Modules that no judge needs which is not a model here."""


def rated(folder, groups=12):
    """Texts with ratings, and answers about them, as files."""
    rows = [
        {
            "example_id": f"{group}-{score}",
            "group_id": str(group),
            "system_id": f"s{score}",
            "source": f"Article {group}.",
        }
        | {"output": f"Text {group} {score}.", "human": {"coherence": score}}
        for group in range(groups)
        for score in range(1, 6)
    ]
    texts = [str(max(1, row["human"]["coherence"] - (i % 4 == 3))) for i, row in enumerate(rows)]
    answers = [{"example_id": row["example_id"], "text": text} for row, text in zip(rows, texts, strict=True)]
    for name, lines in {"texts": rows, "answers": answers}.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))


TEXTS = ("data=jsonl", "data.path=texts.jsonl", "data.scale=[1,5]", "logger=none", "metrics.resamples=20")
REPLAY = ("judge=replay", "judge.path=answers.jsonl")


MINE = """
from dataclasses import dataclass
from judgebench.judges.own import OwnJudge

@dataclass
class Longest(OwnJudge):
    most: int

    def answer(self, prompt):
        return str(1 + len(prompt.example.output) * 4 // self.most)
"""


def served(url):
    return ("judge=api", f"judge.url={url}", "judge.model=small", "ranges=[[1,5]]")


def test_judges_that_are_no_model_here_import_no_torch(tmp_path, small_server):
    rated(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    own = ("judge=own", "judge._target_=mine.Longest", "+judge.most=20", "decoding=[greedy]", "human_agreement=false")
    few = ("decoding=[greedy,expectation]", "human_agreement=false", "force=true")  # what learns imports scipy.optimize
    commands = (
        ("judgebench", "+exp=demo", "data.limit_groups=8", "metrics.resamples=20", "run_dir=demo"),
        ("judgebench", *TEXTS, *REPLAY, "run_dir=replay"),
        ("judgebench", *TEXTS, *own, "run_dir=own"),
        ("judgebench", *TEXTS, *served(small_server.url), "human_agreement=false", "run_dir=served"),
        ("judgebench.command.report", "replay"),
        ("judgebench.command.record", "served", "out=served.parquet"),
        ("judgebench.command.store", "verify", "outputs/readings.sqlite"),
        ("judgebench.command.calibrate", *TEXTS, *served(small_server.url), *few, "run_dir=card"),
        ("judgebench.command.score", "card=card/judge_card.yaml", "data.path=texts.jsonl", "out=scores.csv"),
        ("judgebench", "-m", *TEXTS, *REPLAY, "metrics.seed=0,1", "report=false", "run_dir=multirun"),
    )
    *single, multirun = zip(commands, ended(tmp_path, NEVER, *commands), strict=True)
    for command, (code, imported, said) in single:
        assert (code, imported.split(" ")[0]) == (0, ""), (command, imported, said)
    _, (code, imported, said) = multirun  # its summary draws figures
    assert (code, {*imported.split()[:-1]} & {"torch", "lightning"}) == (0, set()), (imported, said)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = ["wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, REPOSITORY]
    subprocess.run([sys.executable, "-m", "pip", *build], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_light_packages_are_the_projects_without_those_of_models():
    listed = (REPOSITORY / "requirements-light.txt").read_text().splitlines()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    left_out = {re.match(r"[\w.-]+", line)[0] for line in {*project["dependencies"]} - {*listed}}
    assert {line for line in listed if not line.startswith("#")} <= {*project["dependencies"]}
    assert left_out == {"torch", "lightning", "transformers", "accelerate", "safetensors", "gguf", "wordfreq"}
    assert project["scripts"] == {"judgebench": "judgebench.command.dispatch:main"}
    for command in COMMANDS.values():
        assert find_spec(command.module), command


def light_packages():
    """The top-level files of what requirements-light.txt names, and of what that needs."""
    listed = (REPOSITORY / "requirements-light.txt").read_text().splitlines()
    names, entries, todo = set(), set(), [line for line in listed if not line.startswith("#")]
    while todo:
        name = re.match(r"[\w.-]+", todo.pop())[0].lower().replace("_", "-").replace(".", "-")
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # of another platform
            continue
        if name not in names:
            names.add(name)
            entries |= {
                distribution.locate_file(file.parts[0]) for file in distribution.files or () if file.parts[0] != ".."
            }
            todo += [each for each in distribution.requires or () if "extra ==" not in each]
    return names, sorted(entries)


def test_the_wheel_works_in_a_folder_of_its_own_where_no_torch_is_installed(wheel, tmp_path, small_server):
    # 1. an environment of the light packages alone: links, for downloads take minutes
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    names, entries = light_packages()
    assert not names & {"torch", "lightning", "transformers", "accelerate", "safetensors", "gguf"}
    for entry in entries:
        if not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)
    python = tmp_path / "env" / "bin" / "python"
    target = ["--python", python, "install", "-q", "--no-deps", "--no-index", "--no-compile", wheel]
    subprocess.run([sys.executable, "-m", "pip", *target], check=True)
    for name in (
        *("conf/config.yaml", "conf/sweeps/early_exit_layer.yaml", "data/mini/mini.jsonl", "data/conala/conala.jsonl"),
        *("readings/recorded/qwen2.5-coder.parquet", "data/conala/NOTICE"),
    ):
        assert (site / "judgebench" / name).is_file()
    assert (site / "hydra_plugins" / "judgebench_optuna_sweeper" / "sweeper.py").is_file()
    assert list(site.glob("judgebench-*.dist-info/licenses/LICENSE"))
    # 2. the command, from another folder
    work = tmp_path / "work"
    work.mkdir()
    rated(work, 10)

    def judgebench(*words):
        script = [python.with_name("judgebench"), *words]
        done = subprocess.run(script, cwd=work, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
        return done.returncode, done.stdout + done.stderr

    for words, expected, sentence in (
        (("--help",), 0, "  score "),
        (("+exp=demo",), 2, r"give judgebench run \+exp=demo"),
        (("run", "+exp=demo_live"), 2, r"`pip install transformers torch .*`, where there is no GPU from the index"),
    ):
        code, said = judgebench(*words)
        assert (code, bool(re.search(sentence, said))) == (expected, True), said
    # 3. more of them in one process
    fast = ("run_dir=card", "human_agreement=false", "force=true")
    swept = ("decoding=greedy", "metrics.seed=0,1", "report=false", "run_dir=sweep")
    commands = (
        ("judgebench", "calibrate", *TEXTS, *served(small_server.url), *fast),
        ("judgebench", "score", "card=card/judge_card.yaml", "data.path=texts.jsonl", "out=scores.jsonl"),
        ("judgebench", "sweep", *TEXTS, *REPLAY, *swept),
        ("judgebench", "report", "sweep/1"),
    )
    for command, (code, _, said) in zip(
        commands, ended(work, (), *commands, python=python, PYTHONPATH=""), strict=True
    ):
        assert code == 0, (command, said)
    written = ("scores.jsonl", "sweep/0/metrics.json", "sweep/1/metrics.json", "sweep/1/report.html")
    assert [name for name in written if not (work / name).is_file()] == []
