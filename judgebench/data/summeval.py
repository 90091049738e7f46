"""SummEval: 100 CNN/DailyMail articles x 16 systems, each summary scored by three experts.

Source: Fabbri et al. 2021, "SummEval: Re-evaluating Summarization Evaluation".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from judgebench.data.hub import download, is_hub_id
from judgebench.data.joint import with_joint
from judgebench.data.loaded import Loaded, group_hash
from judgebench.data.module import JudgeDataModule
from judgebench.data.rows import Row, is_parquet, json_rows, parquet_rows
from judgebench.runtime.errors import UserError
from judgebench.types import Example

_DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
_SCALE = (1.0, 5.0)
_HUB_ID = "mteb/summeval"


class SummEval(JudgeDataModule):
    """SummEval in any of the three layouts in which it goes round; the first row tells which it is. In all of them,
    `joint` is the mean of the four dimensions.

    1. SummEval's own release, paired with the articles (`id, decoded, expert_annotations, model_id, text`), one JSON
       object a line. Human score = mean of the experts, whose single scores become `ratings`.
    2. G-Eval's and UniEval's summeval.json (`doc_id, system_id, source, system_output, scores`). Without `doc_id` the
       group is named by a hash of the article. `overall` (the mean of the other four) is a dimension if it is there.
    3. The hub's `mteb/summeval`: one row an article, with 16 `machine_summaries` and as many scores per dimension; a
       parquet file, a folder of them, or from the hub. It does not name the systems, so `system_id` is the position
       "0" to "15"; whether a position is the same system in every article is the data set's affair, and
       correlations at system level rely on it.

    Args:
        path: the file; a folder of parquet files; "hub" for mteb/summeval; or another hub id ("owner/name") in the
            same layout.
        **common: see JudgeDataModule.
    """

    name = "summeval"

    def load(self) -> Loaded:
        rows = self._rows()
        first = next(rows, None)
        if first is None:
            raise UserError(f"{self.path}: the file holds no row; it must hold SummEval's annotations.")
        return with_joint(_layout(first)(chain([first], rows)), _DIMENSIONS)

    def _rows(self) -> Iterator[Row]:
        path = self.given_path(
            "the file of SummEval's paired JSONL, of G-Eval's summeval.json or of mteb/summeval's parquet, or 'hub'"
        )
        # As given: Path would drop the "./" of "./owner/name", which says that it is local.
        hub_id = _HUB_ID if self.path == "hub" else str(self.path)
        if self.path == "hub" or is_hub_id(hub_id):
            return parquet_rows(download(hub_id))
        return parquet_rows(path) if is_parquet(path) else json_rows(path)


def _layout(first: Row) -> Callable[[Iterator[Row]], Loaded]:
    if first.has("expert_annotations"):
        return _from_release
    if first.has("machine_summaries"):
        return _from_mteb
    if first.has("scores"):
        return _from_geval
    raise UserError(
        f"{first.place}: not a known layout of SummEval; it must have the field 'expert_annotations' (SummEval's own"
        " JSONL), 'scores' (G-Eval's JSON) or 'machine_summaries' (mteb/summeval)."
    )


def _from_release(rows: Iterator[Row]) -> Loaded:
    examples: list[Example] = []
    places: list[str] = []
    ratings: list[list[list[float]]] = []  # [examples][raters][dimensions]
    for row in rows:
        if not row.has("text"):
            raise UserError(
                f"{row.place}: the article (field 'text') is missing, as in SummEval's download before pairing; give"
                " the paired file that SummEval's data_processing/pair_data.py writes, or data.path=hub."
            )
        given = [[expert.number(d) for d in _DIMENSIONS] for expert in row.inners("expert_annotations")]
        if ratings and len(given) != len(ratings[0]):
            raise UserError(
                f"{row.place}: field 'expert_annotations' has {len(given)} experts and the first row"
                f" {len(ratings[0])}; all rows must have as many."
            )
        article, system = row.identifier("id"), row.identifier("model_id")
        means = [sum(scores) / len(given) for scores in zip(*given, strict=True)]
        examples.append(
            Example(
                example_id=f"{article}/{system}",
                group_id=article,
                system_id=system,
                source=row.text("text"),
                output=row.text("decoded"),
                human=dict(zip(_DIMENSIONS, means, strict=True)),
            )
        )
        places.append(row.place)
        ratings.append(given)
    scores = np.asarray(ratings, dtype=float)
    return Loaded(
        examples=examples,
        scale=dict.fromkeys(_DIMENSIONS, _SCALE),
        ratings={dimension: scores[:, :, i] for i, dimension in enumerate(_DIMENSIONS)},
        places=places,
    )


def _from_geval(rows: Iterator[Row]) -> Loaded:
    examples: list[Example] = []
    places: list[str] = []
    for row in rows:
        scores = row.inner("scores")
        dimensions = (*_DIMENSIONS, "overall") if scores.has("overall") else _DIMENSIONS
        source, system = row.text("source"), row.identifier("system_id")
        article = row.identifier("doc_id") if row.has("doc_id") else group_hash(source)
        examples.append(
            Example(
                example_id=f"{article}/{system}",
                group_id=article,
                system_id=system,
                source=source,
                output=row.text("system_output"),
                human={dimension: scores.number(dimension) for dimension in dimensions},
            )
        )
        places.append(row.place)
    return Loaded(examples, dict.fromkeys(examples[0].human, _SCALE), places=places)


def _from_mteb(rows: Iterator[Row]) -> Loaded:
    examples: list[Example] = []
    places: list[str] = []
    for row in rows:
        article, source = row.identifier("id"), row.text("text")
        summaries = row.texts("machine_summaries")
        scores = {dimension: row.numbers(dimension) for dimension in _DIMENSIONS}
        for dimension, values in scores.items():
            if len(values) != len(summaries):
                raise UserError(
                    f"{row.place}: field '{dimension}' has {len(values)} scores for {len(summaries)}"
                    " machine_summaries; there must be one each."
                )
        for i, summary in enumerate(summaries):
            examples.append(
                Example(
                    example_id=f"{article}/{i}",
                    group_id=article,
                    system_id=str(i),
                    source=source,
                    output=summary,
                    human={dimension: values[i] for dimension, values in scores.items()},
                )
            )
            places.append(row.place)
    return Loaded(examples, dict.fromkeys(_DIMENSIONS, _SCALE), places=places)
