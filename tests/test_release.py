"""What a release says of itself: one version everywhere, a changelog that opens with what comes, forms that parse."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_the_version_is_the_same_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1] == f"{version} ({citation['date-released']})"
    assert citation["version"] == version


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_of_issues_asks_for_something(path):
    form = yaml.safe_load(path.read_text("utf-8"))
    if path.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert form["name"]
    assert form["description"]
    names = [part["id"] for part in form["body"]]
    assert len(set(names)) == len(names)
    assert {part["type"] for part in form["body"]} <= {"textarea", "input"}
    assert all(part["attributes"]["label"] for part in form["body"])
    assert any(part.get("validations", {}).get("required") for part in form["body"])


def test_the_workflow_runs_what_is_run_here():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    (job,) = workflow["jobs"].values()
    (step,) = [step for step in job["steps"] if "run" in step]
    script = ROOT / step["run"]
    assert script.stat().st_mode & 0o111
    targets = re.findall(r"^make (\w+)$", script.read_text("utf-8"), re.MULTILINE)
    assert targets == ["docs", "test"]
    assert set(step["env"]) == {"TORCH_INDEX"}
    assert "TORCH_INDEX ?=" in (ROOT / "Makefile").read_text("utf-8")


def test_hooks_are_what_make_lint_runs():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    ran = re.findall(r"\$\(BIN\)/(\w+(?: (?:format|check))?)", recipe)
    assert [
        hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude") for hook in repository["hooks"]
    ] == ran
