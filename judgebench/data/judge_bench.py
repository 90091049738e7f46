"""Data sets in JUDGE-BENCH's schema: which metrics are graded, on which scale, or have classes, and
what its instances hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from judgebench.data.classes import LabelSettings, classes_note, classes_of, numbered
from judgebench.data.dataset import Dataset, RatingDataset, group_hash
from judgebench.data.fields import Rated, dataset_of, left_out_note
from judgebench.data.rows import FileRow, existing, json_array, json_object
from judgebench.settings.fields import plain
from judgebench.types import Classes, Example, Scale
from judgebench.words.errors import UserError

_SOURCES = ("source", "context", "query", "user_prompt", "input")
_CONTEXTS = ("reference", "fact")
_OUTPUTS = ("translation", "response", "summary", "output")


class JudgeBench(RatingDataset):
    """A data set in JUDGE-BENCH's schema (Bavaresco et al. 2024, "LLMs instead of Human Judges?"):
    `annotations` declares metrics, which are the dimensions, and `instances` holds what was rated.
    Worst and best of a graded or continuous metric are its scale; where its worst is above its best,
    scores are turned round. The labels of a categorical metric are classes, without order unless it
    has a worst and a best, or two of which one is known to be better, or `classes` orders them.

    An instance that is an object has a source, an answer and maybe a context under one of the names
    that the data sets use; one that is a text is judged whole, and its source is the name of the
    data set.

    Args:
        path: the file of one data set, as data/wmt-23/wmt-23_en_de.json.
        name: in tables; None takes the file's name without its ending, or the folder's where that
            is `data`.
        classes, nominal: see `LabelSettings`.
    """

    groups_are = "instances"
    expects = "a file in JUDGE-BENCH's schema"

    def __init__(
        self,
        path: str | None = None,
        name: str | None = None,
        classes: Any = None,
        nominal: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(path, **common)
        self._labels = LabelSettings(plain(classes), nominal)
        file = Path(path or "judge_bench")
        usual = file.parent.name if file.stem == "data" else file.stem
        self.name = str(name) if name else usual

    def load(self) -> Dataset:
        path = existing(self.given_path())
        head = json_object(path)
        metrics = head.inners("annotations")
        scale = {  # worst and best score, of metrics that are graded or continuous
            metric.text("metric"): (metric.number("worst"), metric.number("best"))
            for metric in metrics
            if metric.value("category") != "categorical"
            and metric.has("worst")
            and metric.has("best")
        }
        labels = {
            metric.text("metric"): metric.scores("labels_list", words=True)
            for metric in metrics
            if metric.value("category") == "categorical" and metric.has("labels_list")
        }
        settings = self._labels
        if settings.classes is None:
            declared = {
                metric.text("metric"): (metric.text("worst"), metric.text("best"))
                for metric in metrics
                if metric.text("metric") in labels and metric.has("worst") and metric.has("best")
            }
            settings = replace(settings, classes=declared)
        classes = classes_of([labels], settings, orderless=True)
        if not scale and not classes:
            names = ", ".join(metric.text("metric") for metric in metrics)
            raise UserError(
                f"{head.place}: no metric is graded, continuous or categorical ({names}); give a "
                "data set with one that is."
            )
        title = head.text("dataset") if head.has("dataset") else self.name
        texts = []
        left = []
        for row in json_array(path, "instances"):
            try:
                texts.append(_rated(row, title, scale, classes))
            except UserError as error:
                left.append(error)
        if left and not texts:
            raise left[0]
        self.note = left_out_note(left) or self.note
        self.add_note(classes_note(classes))
        ends = {metric: (min(ends), max(ends)) for metric, ends in scale.items()}
        return dataset_of(texts, ends, classes)


def _rated(
    row: FileRow,
    title: str,
    scale: Mapping[str, Scale],
    classes: Mapping[str, Classes],
) -> Rated:
    """An instance, with the scores of its raters on all metrics of `scale`, and their labels on
    those of `classes` that it has."""
    scores = {}
    for metric, (worst, best) in scale.items():
        # those of single raters, or of one alone the mean, which may be of more
        single = f"annotations.{metric}.individual_human_scores"
        mean = f"annotations.{metric}.mean_human"
        ratings = row.value(single)
        several = isinstance(ratings, list) and len(ratings) > 1
        rated = row.scores(single if several or not row.has(mean) else mean)
        if not worst < best:
            rated = {rater: worst + best - score for rater, score in rated.items()}
        scores[metric] = rated
    for metric in classes:
        of_raters = f"annotations.{metric}.individual_human_scores"
        fields = [of_raters, f"annotations.{metric}.majority_human"]
        labelled = [field for field in fields if row.is_rated(field)]
        scores[metric] = row.scores(labelled[0], words=True) if labelled else {}
    scores = numbered(scores, classes, row.place)
    inner = row.inner("instance") if isinstance(row.value("instance"), Mapping) else row
    output = _first_text(inner, _OUTPUTS)
    source = _first_text(inner, _SOURCES)
    context = _first_text(inner, _CONTEXTS)
    name = row.identifier("id")
    if output and source:
        group = group_hash(source, context)
    else:  # the instance is the text, which stands for itself
        context = context if output else ""
        group = name
        output = row.text("instance")
        source = title
    return Rated(Example(name, group, "system", source, output, {}, context), scores, row.place)


def _first_text(row: FileRow, names: Sequence[str]) -> str:
    """The text of the first of some fields that a row has; empty where it has none."""
    return next((row.text(name) for name in names if row.has(name)), "")
