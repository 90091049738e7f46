"""The judges of runs as the papers' tables know them: models by themselves and pairs of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from judgebench.judges.loading import ModelSource
from judgebench.report.figures.style import shorten
from judgebench.report.paper.published import System, model_key
from judgebench.results.results import Results

CONTRASTIVE = "contrastive"
"""The decoding that stands in the paper's rows, where a run has several that contrast."""

_PREFERRED = {"argmax": "greedy", "expectation": "expectation"}
"""Rule -> the decoding of a model by itself that stands in the rows, where a run has several."""
_SIZE = re.compile(r"(?<![\w.])\d+(?:\.\d+)?[bBmM](?!\w)")
_EXIT = re.compile(r"early exit after (layer \d+)")


def systems_of(run: Results) -> tuple[dict[str, System], dict[str, str]]:
    """Role (`main`; `assistant` and `pair` where there is one) -> who judges, and its name in tables."""
    main, assistant = names_of(run)
    systems: dict[str, System] = {"main": (model_key(main), None)}
    labels = {"main": shorten(main, 30)}
    if assistant is not None:
        systems |= {"assistant": (model_key(assistant), None), "pair": (model_key(main), model_key(assistant))}
        labels |= {"assistant": shorten(assistant, 30), "pair": f"Contrastive ({_size(main)}-{_size(assistant)})"}
    return systems, labels


def names_of(run: Results) -> tuple[str, str | None]:
    """The names of a run's models, told apart where files are called alike."""
    main, assistant = run.titles.get("main") or "main", run.titles.get("assistant")
    if assistant is not None and model_key(assistant) == model_key(main):
        return f"{main} (main)", f"{assistant} (assistant)"
    return main, assistant


def tutor_name(run: Results) -> str | None:
    """The name of the tutor that writes a run's references; None without one."""
    tutor = run.config.get("tutor") or {}
    return ModelSource(tutor["path"], tutor.get("gguf_file")).title if tutor.get("path") is not None else None


def decoding_of(records: Iterable[Mapping[str, Any]], judge: str, rule: str) -> str | None:
    """The one of a judge's decodings by a rule that stands in its rows; None where it has none."""
    names = list(
        dict.fromkeys(
            record["decoding"]
            for record in records
            # where nobody has said it, as in runs of earlier versions, the paper's own
            if record["judge"] == judge and (record.get("rule") or "argmax") == rule
        )
    )
    preferred = CONTRASTIVE if judge == "pair" else _PREFERRED[rule]
    return preferred if preferred in names else next(iter(names), None)


def _size(name: str) -> str:
    """A model's size where its name tells it, as the paper names pairs; the layer of an early exit; else the name."""
    if exit_at := _EXIT.fullmatch(name):
        return exit_at[1]
    sizes = _SIZE.findall(name)
    return sizes[-1] if sizes else shorten(name, 14)
