"""Description of a run: the head of a page, what it cost, and how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from judgebench.judges.loading import ModelSource
from judgebench.report.table import Block, Facts, Folded
from judgebench.report.views.correlations import sized_correlations
from judgebench.report.views.served import served_facts
from judgebench.results.results import Results
from judgebench.results.series import distinct, range_of


def headline(results: Results) -> tuple[str, str]:
    """The title of a run's page, and the sentence below it."""
    titles, scores = results.titles, results.scores
    datasets = dict.fromkeys(str(record["dataset"]) for record in results.metrics)
    ranges = [str(range_of(row)) for row in distinct(scores, ["range_min", "range_max", "range_step"])]
    rows = sized_correlations(results, silent=True)
    lead = f"Assistant: {titles['assistant']}. " if titles.get("assistant") else ""
    lead += f"{', '.join(dict.fromkeys(scores['dimension']))}; score range{'s' if len(ranges) > 1 else ''} "
    lead += f"{', '.join(ranges)}; {results.split} split{', ' + rows['size'].iloc[0] if len(rows) else ''}."
    note = titles.get("note")
    return f"{titles['main']} judging {', '.join(datasets)}", f"{lead} {note}" if note else lead


def judges_line(titles: Mapping[str, str | None]) -> str:
    """Which model is main and which assistant."""
    assistant = titles.get("assistant")
    return f"main: {titles['main']}" + (f" · assistant: {assistant}" if assistant else "")


def cost(results: Results) -> list[Block]:
    """Device, seconds and tokens; what the report itself took is not known while it is made."""
    environment = results.environment
    rows = [("device", str(environment["device"]))]
    rows += [(name, f"{value:.1f} s") for name, value in (environment.get("seconds") or {}).items() if name != "report"]
    rows += [(f"{kind} prompt tokens", f"{count:,}") for kind, count in (environment.get("tokens") or {}).items()]
    rows += served_facts(environment.get("served"))
    return [Facts([(name, [fact]) for name, fact in rows])]


def served(results: Results) -> list[Block]:
    """Requests to judges behind a URL; nothing without one."""
    facts = served_facts(results.environment.get("served"))
    return [Facts([(name, [fact]) for name, fact in facts])] if facts else []


def repeat(results: Results) -> list[Block]:
    """Code, models, packages and configuration."""
    environment = results.environment
    commit = environment["git_commit"] or "an installed package, no checkout"
    rows = [
        ("code", f"{commit}{', with local changes' if environment['git_changed'] else ''}"),
        ("Python", f"{environment['python']} on {environment['platform']}"),
        *((role, _model(known)) for role, known in environment["model_fingerprints"].items()),
    ]
    packages = [(name, [version]) for name, version in environment["packages"].items() if version]
    config = yaml.safe_dump(dict(results.config), sort_keys=False, allow_unicode=True, width=100)
    return [
        Facts([(name, [fact]) for name, fact in rows]),
        Folded("Packages", [Facts(packages)]),
        Folded("Config (secrets masked)", config),
    ]


def _model(known: Any) -> str:
    """A model's title and what identifies it."""
    if not isinstance(known, Mapping):
        return str(known)
    if "sha256" in known:
        return f"{known['title']}, SHA-256 {known['sha256']}"
    if "url" not in known:
        return str(known["title"])
    served_as = ", ".join(str(one["model"]) for one in known["served_as"]) or "nothing"
    return f"{known['title']}, {known['model']} at {known['url']}; the server calls itself {served_as}"


def tutor_title(config: Mapping[str, Any] | None) -> str | None:
    """The name of a tutor, as tables call it; None without one.

    Args:
        config: the run's key `tutor`.
    """
    if config is None or config.get("path") is None:
        return None
    return ModelSource(config["path"], config.get("gguf_file")).title
