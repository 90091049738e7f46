"""Sentences of a report: a Jinja template a question (sentences/*.txt), filled with numbers as people read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from judgebench.config.fields import DAVIDSON
from judgebench.report import formats
from judgebench.stats.alternative import FEWEST_RATERS
from judgebench.stats.bradley_terry import ELO_MEAN
from judgebench.stats.clusters import FEWEST
from judgebench.stats.evaluate import CONSTANT, CONSTANT_HUMANS

_FORMATS = (
    "change",
    "percent",
    "points",
    "short",
    "signed_two",
    "signed_three",
    "singular",
    "thousands",
    "three",
    "two",
)


def _source(name: str) -> str:
    """A template on one line: lines of the file end where it is convenient, and values keep their own white space."""
    return " ".join((Path(__file__).parent / "sentences" / name).read_text(encoding="utf-8").split())


_TEMPLATES = jinja2.Environment(loader=jinja2.FunctionLoader(_source), undefined=jinja2.StrictUndefined)
_TEMPLATES.filters |= {name: getattr(formats, name) for name in _FORMATS}
_TEMPLATES.tests["known"] = formats.is_known
_TEMPLATES.globals |= {name: getattr(formats, name) for name in (*_FORMATS, "bounded", "spaced", "span")}
_TEMPLATES.globals |= {"CONSTANT": CONSTANT, "CONSTANT_HUMANS": CONSTANT_HUMANS}
_TEMPLATES.globals |= {"DAVIDSON": DAVIDSON, "ELO_MEAN": ELO_MEAN}
_TEMPLATES.globals |= {"FEWEST": FEWEST, "FEWEST_RATERS": FEWEST_RATERS}


def say(question: str, **facts: Any) -> str:
    """The answer to a question in words, such as `say("systems", row=row)`; empty where there is nothing to say."""
    return _TEMPLATES.get_template(f"{question}.txt").render(facts).strip()
