"""Sets of recorded judges as tasks, and the figures that were published of them; see scripts/external.py."""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from judgebench.stats.clusters import divided
from judgebench.stats.decisions import kappa_of
from judgebench.stats.scores import Cell, JudgeScores
from judgebench.types import Classes

PASS_FROM = {"llmjudge": 2, "summhay": 2, "llm_rubric_real": 3, "llm_rubric_synth": 3}
"""Graded set -> the label from which a text passes."""
QUESTION = {"llm_rubric_real": "Q0", "llm_rubric_synth": "Q0"}
"""Set -> its overall question; the others are left out."""
BY_QUESTION = ("alttest_summeval", "alttest_lesion")
"""Sets whose questions are tasks of their own."""
