"""TopicalChat: 60 dialogues x 6 replies, scored by three annotators (only the means are published in this format).

Source: Mehri and Eskenazi 2020, "USR: An Unsupervised and Reference Free Evaluation Metric for Dialog Generation";
the file format is UniEval's.
"""

from __future__ import annotations

from judgebench.data.loaded import Loaded, group_hash
from judgebench.data.module import JudgeDataModule
from judgebench.data.rows import json_rows
from judgebench.types import Example

_SCALE = {
    "understandability": (0.0, 1.0),
    "naturalness": (1.0, 3.0),
    "coherence": (1.0, 3.0),
    "engagingness": (1.0, 3.0),
    "groundedness": (0.0, 1.0),
    "overall": (1.0, 5.0),
}
_NO_FACT = "_nofact"


class TopicalChat(JudgeDataModule):
    """UniEval's topical_chat.json: a list of `source` (the dialogue), `context` (the fact), `system_id`,
    `system_output` (the reply) and `scores` on the six dimensions of USR.

    A group is one dialogue with its fact, named by a hash of both. Replies to dialogues without a fact, which the file
    marks "_nofact", get an empty context. Texts keep the file's spaces and line ends.

    Args:
        path: the file.
        **common: see JudgeDataModule.
    """

    name = "topicalchat"
    groups_are = "dialogues"

    def load(self) -> Loaded:
        examples: list[Example] = []
        places: list[str] = []
        for row in json_rows(self.given_path("the file of UniEval's topical_chat.json")):
            source, context, scores = row.text("source"), row.text("context"), row.inner("scores")
            if context.strip() == _NO_FACT:
                context = ""
            dialogue, system = group_hash(source, context), row.identifier("system_id")
            examples.append(
                Example(
                    example_id=f"{dialogue}/{system}",
                    group_id=dialogue,
                    system_id=system,
                    source=source,
                    output=row.text("system_output"),
                    human={dimension: scores.number(dimension) for dimension in _SCALE},
                    context=context,
                )
            )
            places.append(row.place)
        return Loaded(examples, _SCALE, places=places)
