"""The embedded summaries, and data sets that the field shares: SummEval and TopicalChat.

SummEval: 100 CNN/DailyMail articles x 16 systems, each summary scored by three experts (Fabbri et
al. 2021, "SummEval: Re-evaluating Summarization Evaluation"). TopicalChat: 60 dialogues x 6
replies, scored by three annotators, of whom UniEval's file has the means alone (Mehri and Eskenazi
2020, "USR: An Unsupervised and Reference Free Evaluation Metric for Dialog Generation").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.resources import as_file, files
from itertools import chain
from typing import Any

from judgebench.data.dataset import Dataset, RatingDataset, group_hash, with_joint
from judgebench.data.fields import Rated, ScoredFields, Scores, dataset_of
from judgebench.data.rows import (
    FileRow,
    download,
    is_hub_id,
    is_parquet,
    json_lines,
    json_rows,
    parquet_rows,
)
from judgebench.types import Example, Row
from judgebench.words.errors import UserError, shown

_DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
_SCALE = (1.0, 5.0)
_HUB_ID = "mteb/summeval"
_USR_SCALE = {
    "understandability": (0.0, 1.0),
    "naturalness": (1.0, 3.0),
    "coherence": (1.0, 3.0),
    "engagingness": (1.0, 3.0),
    "groundedness": (0.0, 1.0),
    "overall": (1.0, 5.0),
}


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


class TopicalChat(RatingDataset):
    """UniEval's topical_chat.json: a list of `source` (the dialogue), `context` (the fact),
    `system_id`, `system_output` (the reply) and `scores` on the six dimensions of USR.

    A group is one dialogue with its fact, named by a hash of both. Replies to dialogues without a
    fact, which the file marks "_nofact", get an empty context. Texts keep the file's spaces and
    line ends.
    """

    name = "topicalchat"
    groups_are = "dialogues"
    expects = "the file of UniEval's topical_chat.json"

    def load(self) -> Dataset:
        texts = []
        for row in json_rows(self.given_path()):
            source = row.text("source")
            context = row.text("context")
            context = "" if context.strip() == "_nofact" else context
            texts.append(
                _text(
                    row,
                    group_hash(source, context),
                    "system_id",
                    source,
                    "system_output",
                    _means(row, _USR_SCALE),
                    context,
                )
            )
        return dataset_of(texts, _USR_SCALE)


class SummEval(RatingDataset):
    """SummEval in any of the three layouts in which it goes round; the first row shows which it is.
    In all of them, `joint` is the mean of the four dimensions.

    1. SummEval's own release, paired with the articles (`id, decoded, expert_annotations, model_id,
       text`), one JSON object a line. Human score = mean of the experts, whose single scores become
       `ratings`.
    2. G-Eval's and UniEval's summeval.json (`doc_id, system_id, source, system_output, scores`).
       Without `doc_id` the group is named by a hash of the article. `overall` (the mean of the
       other four) is a dimension if it is there.
    3. The hub's `mteb/summeval`: one row an article, with 16 `machine_summaries` and as many scores
       per dimension; a parquet file, a folder of them, or from the hub. It does not name the
       systems, so `system_id` is the position "0" to "15"; whether a position is the same system in
       every article is the data set's affair, and correlations at system level rely on it.

    Args:
        path: the file; a folder of parquet files; "hub" for mteb/summeval; or another hub id
            ("owner/name") in the same layout.
    """

    name = "summeval"
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

    def load(self) -> Dataset:
        path = self.given_path()
        if self._hub_id:
            rows = parquet_rows(download(self._hub_id))
        else:
            rows = parquet_rows(path) if is_parquet(path) else json_rows(path)
        first = next(rows, None)
        if first is None:
            raise UserError(
                f"{self.path}: the file holds no row; it must hold SummEval's annotations."
            )
        # the first row shows the layout
        read: Callable[[FileRow], Iterator[Rated]]
        if "expert_annotations" in first.values:
            read = partial(_from_release, [])
        elif first.has("machine_summaries"):
            read = _from_mteb
        elif "scores" in first.values:
            read = _from_geval
        else:
            raise UserError(
                f"{first.place}: not a known layout of SummEval; it must have the field "
                "'expert_annotations' (SummEval's own JSONL), 'scores' (G-Eval's JSON) or "
                "'machine_summaries' (mteb/summeval)."
            )
        texts = [text for row in chain([first], rows) for text in read(row)]
        return with_joint(dataset_of(texts, _SCALE), _DIMENSIONS)


def _from_release(experts: list[int], row: FileRow) -> Iterator[Rated]:
    """The example of a row of SummEval's own release, scored by as many `experts` as the first that
    has any, or by none."""
    if not row.has("text"):
        raise UserError(
            f"{row.place}: the article (field 'text') is missing, as in SummEval's download before "
            "pairing; give the paired file that SummEval's data_processing/pair_data.py writes, or "
            "data.path=hub."
        )
    raters = row.inners("expert_annotations") if row.has("expert_annotations") else []
    if raters and experts and len(raters) != experts[0]:
        raise UserError(
            f"{row.place}: field 'expert_annotations' has {len(raters)} experts and the first row "
            f"{experts[0]}; all rows must have as many."
        )
    if raters:
        experts.append(len(raters))
    scores: dict[str, dict[str, float]] = {dimension: {} for dimension in _DIMENSIONS}
    for i, rater in enumerate(raters, start=1):
        for dimension in filter(rater.has, _DIMENSIONS):
            scores[dimension][str(i)] = rater.number(dimension)
    yield _text(row, row.identifier("id"), "model_id", row.text("text"), "decoded", scores)


def _from_geval(row: FileRow) -> Iterator[Rated]:
    """The example of a row of G-Eval's and UniEval's file; `overall` is a dimension of rows that
    have it."""
    source = row.text("source")
    group = row.identifier("doc_id") if row.has("doc_id") else group_hash(source)
    dimensions = list(_DIMENSIONS)
    if row.has("scores.overall"):
        dimensions.append("overall")
    yield _text(row, group, "system_id", source, "system_output", _means(row, dimensions))


def _from_mteb(row: FileRow) -> Iterator[Rated]:
    """The examples of a row of mteb/summeval, one a summary."""
    article = row.identifier("id")
    source = row.text("text")
    summaries = row.texts("machine_summaries")
    scores = {
        dimension: row.numbers(dimension) if row.has(dimension) else [None] * len(summaries)
        for dimension in _DIMENSIONS
    }
    for dimension, values in scores.items():
        if len(values) != len(summaries):
            raise UserError(
                f"{row.place}: field '{dimension}' has {len(values)} scores for {len(summaries)} "
                "machine_summaries; there must be one each."
            )
    for i, summary in enumerate(summaries):
        rated = {
            name: {} if (score := values[i]) is None else {"1": score}
            for name, values in scores.items()
        }
        yield Rated(
            Example(f"{article}/{i}", article, str(i), source, summary, {}), rated, row.place
        )


def _means(row: FileRow, dimensions: Sequence[str] | Row) -> Scores:
    """The scores of one rater in a row's object `scores`; none on a dimension that it lacks."""
    scores = row.inner("scores") if row.has("scores") else None
    return {
        name: {"1": scores.number(name)} if scores is not None and scores.has(name) else {}
        for name in dimensions
    }


def _text(
    row: FileRow,
    group: str,
    system: str,
    source: str,
    output: str,
    scores: Scores,
    context: str = "",
) -> Rated:
    """A row's text, by the fields that hold `system` and `output`."""
    name = row.identifier(system)
    return Rated(
        Example(f"{group}/{name}", group, name, source, row.text(output), {}, context),
        scores,
        row.place,
    )
