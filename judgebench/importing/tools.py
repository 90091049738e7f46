"""Result files of other tools, as `importing/tools.yaml` declares them: how a tool's row is known,
where its rows stand in a file, which paths hold a row's texts and names, and where its scores are,
and who gave them.

What a file holds tells its tool, not its name. `importing/results.py` makes rows of a declaration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judgebench.data.rows import FileRow
from judgebench.runtime.parsing import read_yaml
from judgebench.settings.fields import settings_of
from judgebench.types import Row


@dataclass(frozen=True)
class ScorePlace:
    """A place of scores in a row, and how each is read. A path leads into an entry, or else into
    the row; of several the first that is there counts.

    Attributes:
        at: path of a list of entries, of an object name -> entry, or of a list of names of fields
            in the row; empty for the fields of the row itself.
        columns: expression of names of fields, with the groups `name` and `detail`, where the row
            itself or an object holds the entries.
        name: path of an entry's name.
        value: path of an entry's value; of an entry that is no object, the entry is its value.
        giver: path of what says who gave the score; empty for the score's own name.
        givers: `human`, `judge` or `check` (what is computed without a model) -> expression of
            givers that are that; the first counts, and of others it is open what they are.
        detail: path of what makes two scores of one name different ones, as the judge's model.
        apart: path of what tells scores of one name apart, where a row has several.
        rater: path of the name of a person.
        void: path -> value, with which an entry holds no score.
    """

    at: str = ""
    columns: str = r"(?P<name>.+)"
    name: str = "name"
    value: str = "score"
    giver: str = ""
    givers: Mapping[str, str] = field(default_factory=dict)
    detail: str = ""
    apart: str = ""
    rater: str = ""
    void: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Tool:
    """A tool whose rows hold a text each.

    Attributes:
        kind: what it writes, for people.
        known: paths all of which a row of it has, or several such lists.
        columns: expression of a column that tells a row of it too.
        fields: column -> path into a row.
        scores: places of scores, of which the first where one stands counts.
        within: paths of the rows in a file that is one object.
        several: several files may be given as one.
        key: path of what rows about one text share; empty where each has its own.
        others: expression of further columns that are kept.
        within_row: path of an object whose entries are further columns.
        encoded: texts may be JSON, or messages, of which the text counts.
        words: words of scores -> words for people.
        instead: what to give in place of such a file; it is not read then.
    """

    kind: str
    known: Sequence[Sequence[str]] = ()
    columns: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    scores: Sequence[ScorePlace] = ()
    within: Sequence[str] = ()
    several: bool = False
    key: str = ""
    others: str = ""
    within_row: str = ""
    encoded: bool = False
    words: Mapping[str, str] = field(default_factory=dict)
    instead: str = ""

    def wrote(self, row: FileRow) -> bool:
        """True of a row that is known as the tool's."""
        if self.columns and any(re.fullmatch(self.columns, name) for name in row.values):
            return True
        return any(all(map(row.has, paths)) for paths in self.known)


def _tool(declared: Row, name: str) -> Tool:
    scores = []
    for place in declared.get("scores", ()):
        scores.append(settings_of(ScorePlace, place, f"{name}.scores"))
    return settings_of(Tool, {**declared, "scores": scores}, name)


_FILE = Path(__file__).with_name("tools.yaml")

TOOLS = {name: _tool(declared, name) for name, declared in read_yaml(_FILE, _FILE.name).items()}
"""Name -> tool, in the order in which they are asked about a row."""

BATCH = TOOLS["batch"]
INSPECT = TOOLS["inspect"]
