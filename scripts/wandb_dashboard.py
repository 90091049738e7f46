"""W&B workspaces for judgebench's runs, as code: one for contrastive decoding, one for attacks and defenses.

    python scripts/wandb_dashboard.py cd  RUN [RUN ...] --entity ME     # RUN: a run folder, whose numbers get panels
    python scripts/wandb_dashboard.py cap RUN [RUN ...] --entity ME

Runs are sent with `wandb sync RUN/wandb/offline-*`; the workspace then shows all runs of the project. `--dry-run`
prints what would be saved and needs no network. It takes the package wandb-workspaces (`pip install wandb-workspaces`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# wandb looks for its telemetry server when it is imported
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws

from judgebench.results.folder import RunFolder
from judgebench.tracking.content import differences, scalars
from judgebench.words.errors import UserError


def names_of(folders: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Names of the numbers and of the figures that runs have logged; `UserError` for what no run wrote."""
    numbers: dict[str, None] = {}
    figures: dict[str, None] = {}
    for path in folders:
        folder = RunFolder.open(path)
        numbers |= dict.fromkeys([*scalars(folder.read("metrics")), *differences(folder.read("comparisons") or [])])
        figures |= dict.fromkeys(f"figures/{found.stem}" for found in sorted((path / "figures").glob("*.png")))
    return list(numbers), list(figures)


def bars(title: str, names: Sequence[str]) -> list[Any]:
    """A panel with a bar a name and run, or none where there is no name."""
    if not names:
        return []
    return [wr.BarPlot(title=title, metrics=[wr.SummaryMetric(name) for name in names], orientation="h")]


def ending(names: Sequence[str], *endings: str, attacked: bool | None = None, split: str = "test") -> list[str]:
    """Names of one split's numbers, under attacks (True), without (False) or all (None)."""
    of_split = (name for name in names if name.startswith(f"{split}/") and " minus/" not in name)
    of_texts = (name for name in of_split if attacked in (None, "attack=" in name))
    return [name for name in of_texts if name.rsplit("/", 1)[-1] in endings]


def tried(settings: Sequence[str], names: Sequence[str]) -> list[Any]:
    """A panel with a line a run, from its settings to its numbers, or none where there is no number."""
    columns = [wr.ParallelCoordinatesPlotColumn(metric=wr.Config(name)) for name in settings]
    columns += [wr.ParallelCoordinatesPlotColumn(metric=wr.SummaryMetric(name)) for name in names]
    return [wr.ParallelCoordinatesPlot(columns=columns)] if names else []


def contrastive(numbers: Sequence[str]) -> list[ws.Section]:
    """Agreement by range, bias, whether contrast helps, what sweeps tried."""
    against = [name for name in numbers if " minus/" in name and name.endswith("/difference")]
    holm = [name for name in numbers if " minus/" in name and name.endswith("/p_holm")]
    agreement, distance, modal = (
        ending(numbers, end, attacked=False) for end in ("spearman", "bias_wasserstein", "modal_share")
    )
    bias = bars("Distance from the humans' scores (Wasserstein)", distance)
    bias += bars("Share of the most frequent score", modal)
    helps = bars("Difference in Spearman", against) + bars("p of the permutation test, Holm", holm)
    pairs = [name for name in ending(numbers, "spearman", attacked=False, split="dev") if "/pair/" in name]
    return [
        ws.Section(name="Agreement with humans", panels=bars("Spearman, test split", agreement), is_open=True),
        ws.Section(name="Range bias", panels=bias, is_open=True),
        ws.Section(name="Does contrast help?", panels=helps),
        ws.Section(name="Sweeps", panels=tried(("decoding.lambda", "decoding.temperature"), pairs)),
    ]


def defended(numbers: Sequence[str]) -> list[ws.Section]:
    """Changes by attacks under each defense, what that costs in agreement, and how it was found."""
    clean = ending(numbers, "spearman", attacked=False)
    changes = bars("Change of the score", ending(numbers, "change", attacked=True))
    changes += bars("Share of texts whose score rises", ending(numbers, "raised_share", attacked=True))
    strengths = tried(("tutor.alpha_high", "tutor.alpha_low"), [name for name in clean if "defense=" in name])
    return [
        ws.Section(name="What attacks change", panels=changes, is_open=True),
        ws.Section(name="Agreement without attack", panels=bars("Spearman, test split", clean), is_open=True),
        ws.Section(name="Sweeps of the strengths", panels=strengths),
    ]


WORKSPACES: Mapping[str, tuple[str, Callable[[Sequence[str]], list[ws.Section]]]] = {
    "cd": ("contrastive decoding", contrastive),
    "cap": ("attacks and defenses", defended),
}
"""Kind -> title, and sections of numbers; figures and tables are shown below."""

TABLES = ("metrics", "comparisons")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=WORKSPACES)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--entity", required=True, help="the W&B user or team")
    parser.add_argument("--project", default="judgebench")
    parser.add_argument("--dry-run", action="store_true", help="print the workspace and save nothing")
    given = parser.parse_args(arguments)
    try:
        numbers, figures = names_of(given.runs)
    except UserError as error:
        print(f"wandb_dashboard: {error}", file=sys.stderr)
        return 2
    title, sections_of = WORKSPACES[given.kind]
    shown: list[Any] = [wr.MediaBrowser(title=name.removeprefix("figures/"), media_keys=[name]) for name in figures]
    listed: list[Any] = [wr.WeavePanelSummaryTable(table_name=name) for name in TABLES]
    last = [ws.Section(name="Figures", panels=shown), ws.Section(name="Tables", panels=listed)]
    sections = [*sections_of(numbers), *last]
    workspace = ws.Workspace(entity=given.entity, project=given.project, name=f"judgebench: {title}", sections=sections)
    if given.dry_run:
        print(json.dumps(json.loads(workspace._to_model().model_dump_json(by_alias=True)), indent=1))
        return 0
    workspace.save()
    print(workspace.url)
    return 0


if __name__ == "__main__":
    sys.exit(main())
