"""All that a report shows of a run, from the files of its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from judgebench.metrics.bias import family_records
from judgebench.report.browser.judged import Judged
from judgebench.report.defense_files import DefenseRecords, read_defenses
from judgebench.report.example_files import ExampleTexts, read_examples
from judgebench.report.figures import draw_all
from judgebench.report.html import render_report
from judgebench.report.humans import Scale
from judgebench.report.run_folder import RunFolder


@dataclass(frozen=True)
class RunContent:
    """A finished run; see `render_report` for the attributes.

    Raises:
        UserError: in `read`, a folder that no run wrote or finished, or a file that cannot be read.
    """

    folder: RunFolder
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    readings: pd.DataFrame
    scores: pd.DataFrame
    records: Sequence[Mapping[str, Any]]
    titles: Mapping[str, str | None]
    scale: Mapping[str, Scale]
    agreement: Mapping[str, Mapping[str, float | None]]
    defense: DefenseRecords
    texts: ExampleTexts | None

    @classmethod
    def read(cls, path: str | Path) -> RunContent:
        """What stands in a run folder."""
        folder = RunFolder.open(path)
        about = folder.about()
        return cls(
            folder,
            folder.config(),
            folder.environment(),
            folder.readings(),
            folder.scores(),
            folder.metrics(),
            about["titles"],
            {name: (float(ends[0]), float(ends[1])) if ends else None for name, ends in about["scale"].items()},
            about["agreement"],
            read_defenses(folder),
            read_examples(folder),
        )

    def figures(self) -> dict[str, Figure]:
        """Its figures, drawn anew."""
        told: dict[str, Any] = {"tuning": self.folder.tuning(), "suffix": self.folder.suffix(), "defense": self.defense}
        told["pairwise"] = self.folder.pairwise()
        return draw_all(self.readings, self.scores, self.records, self.scale, self.titles, **told)

    def report(self, figures: Mapping[str, Figure]) -> str:
        """Its report.html."""
        similarity = family_records({str(name): self.readings[name].tolist() for name in self.readings})
        return render_report(
            config=self.config,
            environment=self.environment,
            scores=self.scores,
            records=self.records,
            figures=figures,
            scale=self.scale,
            titles=self.titles,
            agreement=self.agreement,
            comparisons=self.folder.comparisons(),
            tuning=self.folder.tuning(),
            similarity=similarity,
            suffix=self.folder.suffix(),
            attack_differences=self.folder.attack_differences(),
            defense=self.defense,
            pairwise=self.folder.pairwise(),
            readings=self.readings,
            texts=self.texts,
        )

    def judged(self, name: str = "") -> Judged:
        """What the pages of its examples show."""
        return Judged(
            name,
            self.dataset,
            self.readings,
            self.scores,
            self.records,
            self.scale,
            self.config,
            self.texts,
            self.defense.references,
        )

    @property
    def dataset(self) -> str:
        """What it has judged."""
        return str(self.records[0]["dataset"]) if self.records else ""
