"""Names that columns of tables have, by what they hold; and names as they are compared and listed."""

from __future__ import annotations

import re
from typing import Any

from judgebench.data.fields import USUAL

TEXTS = {role: USUAL[role] for role in ("source", "output")}
NAMES = {
    "system": "system_id system model model_name model_id modell",
    "group": "group_id group doc_id document_id article_id conversation_id",
    "id": "example_id id item_id sample_id request_id custom_id trace_id uid uuid",
    "rater": "rater rater_id annotator annotator_id worker_id labeler",
}
MORE = {
    "context": "context policy guideline guidelines reference reference_answer target expected "
    "expected_output ideal ground_truth retrieval_context retrieved_context kontext referenz",
    "reason": "judge_reason judge_rationale judge_explanation judge_reasoning judge_comment reason "
    "rationale explanation justification critique reasoning begrundung",
}
HUMAN = re.compile(
    r"(human|people|person|expert|manual|gold|annotat\w*|labell?er|mensch|thumbs?)s?(_\w+)?|"
    r"(rater|bewerter)_?\d+"
)
LABEL = r"(score|rating|grade|label|star|note|vote|annotation|preference|winner|choice|verdict)s?"
MODEL = r"(gpt|claude|gemini|llama|mistral|qwen|deepseek)\w*"
JUDGE = re.compile(
    rf"(judge|llm|ai|auto|evaluator|grader|ki)(_\w+)?|{MODEL}_{LABEL}|judge?ment|verdict|urteil"
)
EITHER = re.compile(
    r"scores?|ratings?|grades?|stars|labels?|quality|pass(ed)?|correct|decision|result|winner|"
    r"prefer(red|ence)|choice|vote|noten?|bewertung(en)?|punkte|sterne|qualitat|nota|puntuacion"
)
STEM = re.compile(rf"(?P<stem>(human_)?{LABEL})_(?P<name>\w+)|(?P<before>\w+?)_(?P<end>{LABEL})")
"""Names that columns have: of texts, of what names them, and of what else is known, the likeliest
first; of people's labels, of a judge's, and of one of both; and of a label with a name."""

QUALITY = re.compile(
    r"\w*(ness|ity|[ea]nce|[ea]ncy|racy|tion|ment|ism|ship)|overall|tone|style|depth|grammar|safety|"
    r"length|format|detail|logic|help(ful)?|correct|relevant|toxic|harm(ful)?|total|mean|avg|"
    r"bleu|rouge\w*|bert|f1|meteor|match|confidence"
)
"""Words for what is rated, and none of a person."""

NO_LABEL = frozenset(["n/a", "na", "n.a.", "#n/a", "nan", "null", "-", "--", "?"])
"""What people write into a cell without a label."""

BAD = re.compile(
    r"hallucinat|toxic|harm|error|bias|contradict|unsafe|violat|offens|refus|spam|wrong|incorrect|"
    r"fail|hate|jailbr|leak|fehler"
)
"""Words in names of labels of which *yes* may be the bad one."""

GENERAL = re.compile(
    r"(_?(human|people|expert|gold|manual)|_?(score|rating|grade|label|star)s?|_?(\d+|[a-z]$))+"
)
"""Names of labels that say nothing of what was rated."""


def listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names)
