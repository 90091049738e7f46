"""Names that a file, or a user, brings: they travel as values, are never resolved, run nothing, and mean the same in
printed commands."""

import csv
import pickle
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from judgebench.config.choices import FOLDER
from judgebench.data.fields import ScoredFields
from judgebench.importing.own import written_out
from judgebench.results.folder import RunFolder
from judgebench.runtime.values import carry, command_of, literal, names_in, quoted, settle, typed, unquoted, written
from judgebench.settings.components import build_component
from tests.conftest import write_rows

QUICK = ("logger=none", "metrics.resamples=20", "report=false", "run_dir=run")

NAMES = [
    "güt",
    'tone & "style"',
    "judge_${model}",
    "it's",
    '"quoted"',
    "'quoted'",
    "back\\slash",
    "ends in \\",
    "\\${oc.env:HOME}",
    "\\\\${oc.env:HOME}",
    "a,b",
    "a=b",
    "+plus",
    "~tilde",
    "-dash",
    "{a: b}",
    "[a]",
    "[a",
    "😀",
    "two\nlines",
    "tab\tand\x1b[31m",
    "null",
    "none",
    "true",
    "5",
    "1e3",
    "$HOME",
    "`id`",
    "$(id)",
    "a:b",
    "%41",
    "replay",
    "${oc.env:HOME}",
    "${${a}}",
    "\u202eturned",
]
ANY = st.one_of(
    st.sampled_from(NAMES),
    st.text(st.sampled_from("a1 \\'\"${}[](),:=+~&ü😀\n\t.#%@-_"), min_size=1, max_size=14),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=14),
)


def arrives(arguments):
    """The configuration that Hydra composes of arguments, as a run sees it."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        config = compose("config", list(arguments))
    config = settle(config)
    # what is written into a run folder, and read there
    return OmegaConf.create(OmegaConf.to_yaml(config))


def in_a_shell(command):
    """The words of a command as Bash gives them to a program."""
    script = f"printf '%s\\0' {command}"
    return subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode().split("\0")[:-1]


MANY = st.lists(ANY, min_size=30, max_size=30, unique=True)
"""Names that are composed at once: a configuration takes longer than its names."""


@settings(max_examples=4)
@example(names=NAMES)
@given(names=MANY)
def test_a_name_is_one_value_for_hydra_and_for_every_later_look(names):
    assert [unquoted(quoted(name)) for name in names] == names
    assert [names_in(quoted(name)) for name in names] == [[name] for name in names]
    given = [f"+given.k{i}={quoted(name)}" for i, name in enumerate(names)]
    config = arrives([*given, *carry([], {f"+carried.k{i}": name for i, name in enumerate(names)})])
    for there in (config.given, config.carried):
        assert list(there.values()) == names
        # resolved, written without being resolved, and resolved again
        again = OmegaConf.create(OmegaConf.to_container(there))
        assert list(OmegaConf.to_container(again, resolve=True).values()) == names


@settings(max_examples=4)
@example(names=NAMES)
@given(names=MANY)
def test_names_of_dimensions_are_keys_and_never_structure(names):
    values = {"prompt.variants": dict.fromkeys(names, "overall"), "dimensions": names, "data.fields.human": {}}
    config = arrives(carry(["data=jsonl"], values))
    assert OmegaConf.to_container(config.prompt.variants, resolve=True) == dict.fromkeys(names, "overall")
    assert list(config.dimensions) == names
    assert names_in(written(names)) == names
    assert not any("oc.env" in argument or "_target_" in argument for argument in carry([], values))


@settings(max_examples=20)
@given(names=st.lists(ANY, min_size=1, max_size=30))
def test_a_printed_command_means_the_same_in_a_shell(names):
    words = [f"human={quoted(name)}" for name in names]
    assert in_a_shell(command_of(words)) == words
    assert shlex.split(" ".join(shlex.quote(word) for word in words)) == words
    assert all(sign.isprintable() for sign in command_of(words))


def test_what_a_file_names_is_never_made():
    """Not below a class, by no key of Hydra's, and not by a second look."""
    for key in ("_target_", "_args_", "_partial_", "_recursive_", "_convert_"):
        human = {key: "os.getcwd", "b": "${oc.env:HOME}"}
        node = OmegaConf.create({"_target_": f"{__name__}.Kept", "fields": literal({"human": human})})
        assert build_component(node).fields == {"human": human}


class Kept:
    def __init__(self, fields):
        self.fields = fields


class Evil:
    """Makes a folder where it is unpickled."""

    def __reduce__(self):
        return Path.mkdir, (Path("ran"),)


PAYLOADS = [
    "{_target_: pandas.read_pickle, filepath_or_buffer: evil.pkl}",
    "{_target_: joblib.load, filename: evil.pkl}",
    "{_target_: torch.load, f: evil.pkl, weights_only: false}",
    "{_target_: numpy.load, file: evil.pkl, allow_pickle: true}",
    "{_target_: shutil.copy, src: evil.pkl, dst: ran}",
    "{_target_: os.mkdir, path: ran}",
]
HOSTILE = [
    *(f"${{oc.create:{payload}}}" for payload in PAYLOADS),
    *(f"x, b: {payload}" for payload in PAYLOADS[-1:]),
    *PAYLOADS[-1:],
    "${oc.env:SLACK_WEBHOOK}",
    "\\${oc.env:SLACK_WEBHOOK}",
]


@pytest.fixture
def watched(judgebench, monkeypatch):
    """A folder with a pickle that shows that it ran, and a variable that nobody may see."""
    monkeypatch.setenv("SLACK_WEBHOOK", "hooks.example/very-secret")
    Path("evil.pkl").write_bytes(pickle.dumps(Evil()))
    yield
    assert not Path("ran").exists()
    for path in Path().rglob("*"):
        assert not path.is_file() or b"very-secret" not in path.read_bytes(), path


def table(name, columns, rows=24):
    """A table with columns of labels or answers, by their names."""
    with open(name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "answer", *columns])
        for i in range(rows):
            labels = [1 + (i + i * k // 3) % 5 for k in range(len(columns))]
            writer.writerow([f"Question {i // 2}?", f"Answer {i}.", *labels])


def as_column(name):
    """A name as it is typed where a judge of conf/judge has it too."""
    return "'replay'" if name == "replay" else quoted(name)


def parsed(words):
    """The values of overrides as Hydra reads them, resolved; key -> value."""
    overrides = OverridesParser.create().parse_overrides(list(words))
    values = {each.key_or_group: OmegaConf.create({"value": each.value()}) for each in overrides}
    return {key: OmegaConf.to_container(value, resolve=True)["value"] for key, value in values.items()}


def test_a_column_is_one_whatever_it_is_called_and_however_it_is_typed(judgebench, watched):
    """Each name is the column of the judge, and of people; the printed command says the same in a shell."""
    with initialize_config_dir(str(FOLDER), version_base="1.3"):
        config = compose("config", ["data=jsonl", "judge=replay", "+taken=null"])
    base = OmegaConf.masked_copy(config, ["data", "judge", "ranges", "taken"])
    printed = []
    meant = []
    for name in [*HOSTILE, *NAMES]:
        table("x.csv", ["people", name])
        for word in [as_column(name), *([name] if name in HOSTILE else [])]:
            for roles in (["human=people", f"judge={word}"], [f"human={word}", "judge=people"]):
                overrides, said = written_out(["data.path=x.csv", *roles])
                assert overrides[:3] == ["data.path=x.csv", "data=jsonl", "judge=replay"]
                config = base.copy()
                config.taken = overrides[3].removeprefix("+taken=")
                config = settle(config)
                (human,) = config.data.fields.human.values()
                assert {config.judge.fields.text, human} == {"people", name}
                assert config.judge.title == config.judge.fields.text
                words = parsed(typed(overrides))
                if "judge" in words and words["judge"] != "replay":  # a dimension that only the short form can say
                    assert {words["judge"], words["human"]} == {"people", name}
                else:
                    assert words["judge.title"] == words["judge.fields.text"] == config.judge.title
                    assert [*words["data.fields.human"].values()] == [human]
                printed.append(said[0].removeprefix("This stands for: "))
                meant += ["python", "-m", "judgebench", *typed(overrides)]
    assert in_a_shell(" ".join(printed)) == meant


FEW = [HOSTILE[5], HOSTILE[-2], "two\nlines"]
EACH = [name if name in FEW else pytest.param(name, marks=pytest.mark.exhaustive) for name in [*HOSTILE, *NAMES]]


@pytest.mark.parametrize("name", EACH)
def test_a_column_is_the_judge_of_a_run_whatever_it_is_called(judgebench, watched, name):
    table("x.csv", ["people", name])
    _, out, err = judgebench("data.path=x.csv", "human=people", f"judge={as_column(name)}", *QUICK)
    assert "very-secret" not in out + err
    judge = yaml.safe_load(Path("run/config.yaml").read_text("utf-8"))["judge"]
    assert judge["title"] == judge["fields"]["text"] == name
    # the command that it says it stands for is the same run
    (command,) = re.findall(r"^This stands for: (.*)$", out, re.MULTILINE)
    _, again, _ = judgebench(*in_a_shell(command)[3:], "run_dir=again")
    assert "This stands for" not in again
    assert RunFolder.open("again").read("scores").equals(RunFolder.open("run").read("scores"))


@pytest.mark.parametrize("name", EACH)
def test_a_dimension_is_one_whatever_it_is_called(judgebench, watched, name):
    """With nothing named by the user; where it is refused, by a sentence that holds its name."""
    rows = [
        {
            "source": f"Question {i}?",
            "output": f"Answer {i}.",
            "human": {name: 1 + i % 5, "other": 2},
            "judge": 1 + i % 4,
        }
        for i in range(24)
    ]
    write_rows("x.jsonl", rows)
    for words in (["data.path=x.jsonl", "judge=judge"], ["data=jsonl", "data.path=x.jsonl", "dry_run=true"]):
        code, out, err = judgebench(*words, *QUICK, mistaken=True)
        assert code in (0, 2), err
        assert "Traceback" not in err
        assert "very-secret" not in out + err
        assert code == 0 or name.split("\n")[0][:5] in err or "\\x" in err or "\\u" in err, err


def test_raters_are_some_whatever_they_are_called(judgebench, watched):
    names = [*HOSTILE, *NAMES]
    rows = []
    for i in range(24):
        texts = {"source": f"Question {i // 2}?", "output": f"Answer {i}.", "judge": 1 + i % 4}
        rows.append(texts | {"human": {"tone": {name: 1 + (i + j) % 5 for j, name in enumerate(names)}}})
    write_rows("x.jsonl", rows)
    _, out, err = judgebench("data.path=x.jsonl", "judge=judge", *QUICK)
    assert "very-secret" not in out + err
    assert f"{len(names)} raters" in out


def test_the_name_that_no_configuration_can_hold_is_refused_by_name(judgebench):
    table("x.csv", ["people", "???"])
    for words in (["human=people", "judge='???'"], ["human='???'", "judge=people"]):
        _, _, err = judgebench("data.path=x.csv", *words, *QUICK, mistaken=True)
        assert "is called '???'" in err
        assert "give it another name" in err
    # where nobody means it, it is a column as any
    judgebench("data.path=x.csv", "human=people", "judge=people", *QUICK)


def test_fields_take_a_dimension_of_any_name():
    fields = ScoredFields.parse({"source": "a", "output": "b", "human": {"_target_": "os.getcwd"}})
    assert fields.human == {"_target_": "os.getcwd"}
    assert typed(carry(["a=1"], {"k": {"ü": 1}}, ["human=x"])) == ["human=x"]
