"""Every command of the README and docs/ does what it says: on a tiny judge, as a dry run where that tells enough."""

import json
import pydoc
import re
import shlex
import sys
import textwrap
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from judgebench.config.choices import COMMANDS as BY_WORD
from judgebench.config.keys import FOLDER
from judgebench.importing.own import written_out
from judgebench.settings.margins import Margins
from judgebench.studies.rules import rules_of
from tests.conftest import write_rows

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
DOCS = ROOT / "docs"
PAGES = {
    page: page.read_text("utf-8") for page in sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")])
}
JOINED = [re.sub(r" \\\n +", " ", text) for text in PAGES.values()]
COMMANDS = list(
    dict.fromkeys(
        " ".join(found.split())
        for text in JOINED
        for found in re.findall(r"(?:`|^ {4})(python -m judgebench(?:[^`\n]*$|[^`]*(?=`)))", text, re.MULTILINE)
    )
)
SMALL = ("data.limit_groups=12", "logger=none")
DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")


def words_of(command: str) -> list[str]:
    """The module that a command runs, and its arguments."""
    _, _, name, *words = shlex.split(command)
    if words[:1] and words[0] in BY_WORD:
        return [BY_WORD[words[0]][0], *words[1:]]
    return [name, *words]


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_pair) -> Path:
    """A folder with whatever the commands name: data of each kind, a phrase, earlier answers, a run, a card."""
    folder = tmp_path_factory.mktemp("readme")
    texts = [
        (f"Article {a} says that it rained in town {a}.", f"It rained, {s}.") for a in range(4) for s in ("a", "b")
    ]
    rows = [
        {"example_id": f"{i}", "source": source, "output": output, "human": {"coherence": 1 + i % 5}}
        | {"report": source, "note": output, "stars": 1 + i % 5, "language": "en"}
        | {"gpt": f"{output} So {i}.", "stars_gpt": 1 + i % 5, "llama": f"{output} No {i}.", "stars_llama": 5 - i % 5}
        for i, (source, output) in enumerate(texts)
    ]
    write_rows(folder / "mine.jsonl", rows)
    write_rows(
        folder / "answers.jsonl", [{"example_id": row["example_id"], "run": 1, "text": "Rating: 3"} for row in rows]
    )
    voted = [{"source": s, "first": o, "second": f"{o} Much.", "preference": "first"} for s, o in texts[::2]]
    write_rows(folder / "voted.jsonl", [{**row, "first_system": "x", "second_system": "y"} for row in voted])
    experts = dict.fromkeys(DIMENSIONS, 3)
    paired = [
        {
            "id": source[:9],
            "model_id": output[-2],
            "text": source,
            "decoded": output,
            "expert_annotations": [experts] * 3,
        }
        for source, output in texts
    ]
    write_rows(folder / "paired.jsonl", paired)
    graded = [f"{i // 4},Question {i // 4}?,Yes.,Answer {i}.,{i % 5},{i % 4}" for i in range(12)]
    header = "id,question,desired_answer,student_answer,score_me,score_other"
    (folder / "mohler.csv").write_text("\n".join([header, *graded]) + "\n")
    own = "\n".join(PAGES[DOCS / name] for name in ("your_own.md", "lightning.md"))
    for name, text in re.findall(r"`([\w/]+\.\w+)`:\n\n((?:(?: {4}.*)?\n)+)", own):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text).strip() + "\n")
    assert (folder / "mine.py").is_file()
    assert (folder / "rubrics" / "coherence.txt").is_file()
    (folder / "phrase.json").write_text(json.dumps({"phrase": "great well"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        calibrate = (
            "python -m judgebench calibrate data=jsonl data.path=FILE 'data.scale=[1,5]' judge=local judge.path=DIR"
        )
        assert calibrate in COMMANDS
        run(
            patch,
            [
                *filled(words_of(calibrate), folder, tiny_pair),
                *["logger=none", "run_dir=run", "metrics.resamples=50", "force=true"],
            ],
        )
        run(patch, ["judgebench.command.record", "run", "out=readings.parquet"])  # of the ranges of calibrate
    (folder / "judge_card.yaml").write_text((folder / "run" / "judge_card.yaml").read_text())
    return folder


def filled(words: list[str], folder: Path, pair: tuple[Path, Path]) -> list[str]:
    """The command with what is here in place of what its reader has."""
    file = "paired.jsonl"
    if words[0] != "judgebench" or "data=jsonl" in words or not any(re.match(r"data=|\+exp=", word) for word in words):
        file = "mine.jsonl"
    if "data=jsonl_pairs" in words:
        file = "voted.jsonl"
    if "data=mohler" in words:
        file = "mohler.csv"
    found = []
    for word in words:
        model = pair[1] if word.startswith("assistant.path=") else pair[0]
        word = (
            word.replace("RUN/attack/phrase.json", str(folder / "phrase.json"))
            .replace("path=FILE", f"path={file}")
            .replace("path=tests/", f"path={ROOT}/tests/")
            .replace("tasks=DIR", f"tasks={folder}")
            .replace("url=URL", "url=http://127.0.0.1:9/v1")
            .replace("[URL1,URL2]", "[http://127.0.0.1:9/v1,http://127.0.0.1:19/v1]")
        )
        word = re.sub(r"path=DIR$", f"path={model}", word)
        found.append(str(folder / "run") if word == "RUN" else word)
    return found


def run(patch: pytest.MonkeyPatch, words: list[str]) -> None:
    """One of judgebench's commands in this process; it must end well."""
    import importlib

    name, *arguments = words
    module = importlib.import_module("judgebench.__main__" if name == "judgebench" else name)
    patch.setattr(sys, "argv", [name, *arguments])
    GlobalHydra.instance().clear()
    code = None
    try:
        module.main()
    except SystemExit as end:
        code = end.code
    assert not code, words


def composed(*words: str):
    GlobalHydra.instance().clear()
    overrides, _ = written_out([word for word in words if word != "-m"])
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        return compose("config", overrides, return_hydra_config=True)


judge_of = cache(lambda *words: composed(*words).judge)


def only_composes(words: list[str]) -> bool:
    """Whether a command is only composed here: a sweep or a panel, which their own tests run, or a model of the hub."""
    if "-m" in words:
        return any(word.startswith("+sweeps=") for word in words)
    of_judge = [word for word in words[1:] if re.match(r"judge[.=]|\+(exp|use)=", word)]
    judge = judge_of(*(words[1:] if any(word.startswith("human=") for word in words) else of_judge))
    path = str(judge.get("path", "package:"))
    here = "url" in judge or path.startswith("package:") or Path(path).exists()
    return "members" in judge or not here


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_the_command_works_as_printed(command, place, tiny_pair, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))  # as `python -m` has the folder where it is started
    for name in ("mine", "dictionary", "learned"):
        monkeypatch.delitem(sys.modules, name, raising=False)  # another test's
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    words = filled(words_of(command), place, tiny_pair)
    if words == ["judgebench.command.gate"]:
        return  # the name alone
    if words[0] == "judgebench":
        if "--help" in words:
            return  # tests/test_configuration.py reads it
        if only_composes(words):
            assert composed(*words[1:]).run_dir
            return
        if "dry_run=true" not in words and "judge=own" not in words:
            words.append("dry_run=true")
        words += SMALL
        if "+exp=cap_summeval" in words:
            # of 8, which take more articles than are written here
            words.append("attacks.4={name: adv_suffix, contexts: 1}")
    elif words[0] == "judgebench.command.calibrate" and {"judge=recorded", "judge=own"} & set(words):
        words += ["logger=none", "run_dir=calibrated", "metrics.resamples=20", "force=true"]
    elif words[0] == "judgebench.command.calibrate":
        assert (place / "run" / "judge_card.yaml").is_file()  # it ran first
        return
    elif words[0] == "judgebench.command.gate":
        words.append("dry_run=true")  # it takes ten articles
    elif words[:2] == ["judgebench.command.store", "merge"]:
        run(monkeypatch, ["judgebench.command.store", "merge", "outputs/readings.sqlite", "out=others.sqlite"])
    run(monkeypatch, words)
    if words[0] == "judgebench.command.score":
        assert len((place / "scores.jsonl").read_text().splitlines()) == 8


def test_the_lines_of_python_run(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    (code,) = re.findall(
        r"((?:^    .*\n|^\n)*    from judgebench.cards import Judge\n(?:^    .*\n|^\n)*)", README, re.MULTILINE
    )
    exec("\n".join(line[4:] for line in code.splitlines()), {})
    assert len(capsys.readouterr().out.split()) >= 2


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_everything_that_a_page_points_to_is_there(page):
    text = PAGES[page]
    for link in re.findall(r"\[[^]]*\]\(([^):]+)\)", text):
        place, _, anchor = link.partition("#")
        target = page.parent / place if place else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link
    for path in re.findall(r"`((?:scripts|conf|judgebench|hydra_plugins|tests)/[\w./-]+)[ `]", text):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE):  # what mkdocstrings shows there
        assert pydoc.locate(name) is not None, name


def test_the_readme_names_targets_of_the_makefile():
    make = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = [
        word
        for text in PAGES.values()
        for line in re.findall(r"(?:^ {4}|`)make ([a-z -]+?)(?:`| {2})", text, re.MULTILINE)
        for word in line.split()
    ]
    assert {"demo", "test"} <= set(named) <= make
    checked = re.findall(r"^make ([a-z-]+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert {"docs", "test"} <= set(checked) <= make  # links of the site are checked nowhere else


def test_the_contributors_page_has_every_folder_and_file_of_the_package():
    page = PAGES[ROOT / "CONTRIBUTING.md"]
    (listing,) = re.findall(r"^An import leads.*\n.*\n\n((?: {4}.*\n)+)", page, re.MULTILINE)
    listed = {
        name for line in listing.splitlines() for name in re.split(", ", line[:31].strip()) if name and name[:2] != "__"
    }
    there = {
        path.stem
        for path in (ROOT / "judgebench").iterdir()
        if (path.is_dir() or path.suffix == ".py") and path.name[:2] != "__"
    }
    assert listed == there


def test_the_first_page_shows_what_the_demo_prints(tmp_path, monkeypatch, capsys):
    import judgebench

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    results = judgebench.run(["+exp=demo", "run_dir=outputs/demo/recorded"])
    lines = [*capsys.readouterr().out.strip("\n").splitlines(), str(results.path)]  # where the command line ends
    printed = "\n".join(f"    {line.rstrip()}".rstrip() for line in lines)
    assert f"\n\n{printed}\n\n" in README, f"in README.md the block of the demo is to be\n\n{printed}"
    share = {
        (row["decoding"], row["calibrated"]): f"{100 * row['range_both']:.0f} %"
        for row in results.variance
        if row["study"] == "ranges" and row["judge"] == "main"
    }
    caption = (
        f"it makes {share['greedy', False]} of the variance of its most likely scores, "
        f"{share['expectation', False]} of the expectation's, and {share['expectation', True]} once that is calibrated"
    )
    assert caption in " ".join(README.split()), caption
    order = results.verdict[0]
    example = (
        f"orders {order['value']:.3f} [{order['value_low']:.3f}, {order['value_high']:.3f}] of the pairs as the other "
        f"raters do, and one rater {order['rater']:.3f}"
    )
    assert example in " ".join(PAGES[ROOT / "docs" / "verdict.md"].split()), example


def test_the_page_of_the_verdict_has_its_rules_and_margins():
    page = PAGES[ROOT / "docs" / "verdict.md"]
    uses, thresholds = (page.split(f"\n## {name}\n")[1].split("\n## ")[0] for name in ("The rules", "Thresholds"))
    said = " ".join(uses.split())
    for rule in rules_of({}).values():
        name = f"{rule.title[0].upper()}{rule.title[1:]}"
        parts = zip(("Measured by", "Yes", "With care", "No"), rule[1:], strict=True)
        assert f"### {name} {' '.join(f'- **{part}**: {words}.' for part, words in parts)}" in said
    margins = {name: float(value) for name, value in re.findall(r"^\| `verdict\.(\w+)` \| (\S+) \|", thresholds, re.M)}
    assert margins == asdict(Margins())
