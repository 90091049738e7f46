"""The embedded summaries, and SummEval's layout on the hub, which is fetched where that is asked.

SummEval: 100 CNN/DailyMail articles x 16 systems, each summary scored by three experts (Fabbri et
al. 2021, "SummEval: Re-evaluating Summarization Evaluation").
"""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from judgebench.data.dataset import Dataset, RatingDataset, with_joint
from judgebench.data.fields import ScoredFields, dataset_of
from judgebench.data.jsonl import JsonLines
from judgebench.data.rows import download, is_hub_id, json_lines
from judgebench.words.errors import UserError, shown

_DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
_SCALE = (1.0, 5.0)
_HUB_ID = "mteb/summeval"


class Mini(RatingDataset):
    """The embedded summaries of judgebench/data/mini/mini.jsonl, for a first run and for tests,
    without a file of your own or network. Their scale is 1 to 5; `joint` is the mean of the four
    dimensions.
    """

    name = "mini"
    note = "The human scores of mini follow from how its texts were made; no human rated them."

    def __init__(self, path: str | None = None, **common: Any) -> None:
        if path is not None:
            raise UserError(
                f"data.path: {shown(path)} is not needed, for mini is part of the package; "
                "data.path=null leaves it out.",
                give={"data.path": None},
            )
        super().__init__(**common)

    def load(self) -> Dataset:
        with as_file(files("judgebench.data").joinpath("mini", "mini.jsonl")) as path:
            fields = ScoredFields(source="source", output="output", human="human")
            texts = [text for row in json_lines(path) for text in fields.rated(row)]
        return with_joint(dataset_of(texts, _SCALE), _DIMENSIONS)


class SummEval(JsonLines):
    """SummEval in any of the layouts in which it goes round, which conf/data/summeval.yaml declares.

    That of the hub does not name the systems, so that `system_id` is the position "0" to "15";
    whether a position is the same system in every article is the data set's affair, and
    correlations at system level rely on it.

    Args:
        path: a file or a folder of them; "hub" for mteb/summeval; or another hub id ("owner/name")
            in the same layout.
    """

    groups_are = "articles"
    expects = (
        "the file of SummEval's paired JSONL, of G-Eval's summeval.json or of mteb/summeval's "
        "parquet, or 'hub'"
    )

    @property
    def _hub_id(self) -> str | None:
        # as given: Path would drop the "./" of "./owner/name", which says that it is local
        name = _HUB_ID if self.path == "hub" else str(self.path)
        return name if name == _HUB_ID or is_hub_id(name) else None

    def check_path(self) -> None:
        if self._hub_id is None:
            super().check_path()

    def given_path(self) -> Path:
        return download(self._hub_id) if self._hub_id else super().given_path()
