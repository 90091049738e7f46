"""What the code itself must not do: run code out of files, or take data for code."""

import ast
from pathlib import Path

import pytest

from judgebench.config.choices import COMMANDS

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = sorted(
    path for room in ("judgebench", "hydra_plugins", "scripts") for path in (REPOSITORY / room).rglob("*.py")
)

MODULES = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "code", "runpy"}
CALLS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "torch.load", "torch.hub.load", "np.load"),
    *("numpy.load", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "pd.read_pickle", "pandas.read_pickle"),
    "jinja2.Template",
}


def dotted(node):
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def faults(tree):
    """What a module does that it must not, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            yield from (f"line {node.lineno}: imports {name}" for name in named if name.split(".")[0] in MODULES)
        if isinstance(node, ast.Call):
            if dotted(node.func) in CALLS:
                yield f"line {node.lineno}: calls {dotted(node.func)}"
            for key in node.keywords:
                given = key.value.value if isinstance(key.value, ast.Constant) else None
                if (key.arg, given) in (("trust_remote_code", True), ("allow_pickle", True), ("shell", True)):
                    yield f"line {node.lineno}: {key.arg}=True"
                if key.arg == "use_safetensors" and given is not True:
                    yield f"line {node.lineno}: use_safetensors is not True"


def test_nothing_runs_what_it_reads():
    assert len(FILES) > 150
    found = {str(path.relative_to(REPOSITORY)): list(faults(ast.parse(path.read_text()))) for path in FILES}
    # it runs modules of judgebench alone, which its own table names
    (line,) = found.pop("judgebench/command/dispatch.py")
    assert line.endswith("imports runpy")
    assert {command.module.split(".")[0] for command in COMMANDS.values()} == {"judgebench"}
    assert {path: some for path, some in found.items() if some} == {}


@pytest.mark.parametrize(
    "code",
    [
        *("import pickle", "from joblib import load", "torch.load(f)", "eval('1')", "np.load(f, allow_pickle=True)"),
        *("m.from_pretrained(p, trust_remote_code=True)", "run('a', shell=True)", "m(use_safetensors=False)"),
    ],
)
def test_such_code_would_be_found(code):
    assert list(faults(ast.parse(code)))


def test_configurations_trust_no_code_of_models():
    for path in (REPOSITORY / "conf").rglob("*.yaml"):
        for line in path.read_text().splitlines():
            if "trust_remote_code" in line.partition("#")[0]:
                value = line.partition("#")[0].partition(":")[2].strip()
                assert value == "false" or value.startswith("${"), f"{path}: {line}"


def test_templates_of_the_report_escape_what_they_show():
    for path in (REPOSITORY / "judgebench").rglob("*.html*"):
        text = path.read_text()
        assert "autoescape false" not in text, path
