"""Result files of other tools, declared: how a tool's file is known, where its rows stand, which
paths hold a row's texts and names, and where its scores are, and who gave them.

What a file holds tells its tool, not its name. `importing/results.py` makes rows of a declaration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from judgebench.data.rows import FileRow

_NOTHING = r"(?!)"
"""An expression that nothing matches."""


@dataclass(frozen=True)
class ScorePlace:
    """A place of scores in a row, and how each is read. A path may be several with `|` between
    them, of which the first that is there counts; it leads into an entry, or else into the row.

    Attributes:
        at: path of a list of entries, of an object name -> entry, or of a list of names of fields
            in the row; empty for the fields of the row itself.
        fields: what names of fields have to be, with the groups `name` and `detail`, where the row
            itself or an object holds the entries.
        name: path of an entry's name.
        value: path of an entry's value; of an entry that is no object, the entry is its value.
        giver: path of what says who gave the score; `name` is the score's own name.
        judges: expression that givers which are judges match; people: likewise people; checks:
            likewise what is computed without a model. Of others it is open what they are.
        detail: path of what makes two scores of one name different ones, as the judge's model.
        apart: path of what tells scores of one name apart, where a row has several.
        rater: path of the name of a person.
        void: path -> value, with which an entry holds no score.
    """

    at: str = ""
    fields: str = r"(?P<name>.+)"
    name: str = "name"
    value: str = "score"
    giver: str = ""
    judges: str = _NOTHING
    people: str = _NOTHING
    checks: str = _NOTHING
    detail: str = ""
    apart: str = ""
    rater: str = ""
    void: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Tool:
    """A tool whose rows hold a text each.

    Attributes:
        kind: what it writes, for people.
        known: whether a row is its.
        fields: column -> path into a row, or several with `|` between them.
        scores: places of scores, of which the first where one stands counts.
        within: paths of the rows in a file that is one object.
        key: path of what rows about one text share; empty where each has its own.
        others: expression of further columns that are kept.
        within_row: path of an object whose entries are further columns.
        encoded: texts may be JSON, or messages, of which the text counts.
        words: words of scores -> words for people.
        instead: what to give in place of such a file; it is not read then.
    """

    kind: str
    known: Callable[[FileRow], bool]
    fields: Mapping[str, str] = field(default_factory=dict)
    scores: Sequence[ScorePlace] = ()
    within: Sequence[str] = ()
    key: str = ""
    others: str = ""
    within_row: str = ""
    encoded: bool = False
    words: Mapping[str, str] = field(default_factory=dict)
    instead: str = ""


def _holds(*paths: str) -> Callable[[FileRow], bool]:
    return lambda row: all(map(row.has, paths))


_MLFLOW_SCORE = (
    r"(?P<name>(?!expected)[^/]+?)/((?P<detail>.+)/)?(score|value)"  # correctness/v1/score
)
_MLFLOW_CHECKS = (
    r"(flesch|ari_grade|rouge|bleu|exact_match|latency|token_count|ndcg|precision|recall).*"
)


def _is_mlflow(row: FileRow) -> bool:
    traced = row.has("info.trace_id") or (row.has("trace_id") and row.has("assessments"))
    return traced or any(re.fullmatch(_MLFLOW_SCORE, name) for name in row.values)


_PROMPTFOO_JUDGES = (
    r"(not-)?(llm-rubric|model-graded-\w+|factuality|g-eval|answer-relevance|context-\w+|pi"
    r"|search-rubric|agent-rubric|conversation-relevance|trajectory:goal-success"
    r"|promptfoo:redteam:.+)"
)
"""Assertions that a model judges one text by: of promptfoo's `usesGradingProvider`, without those
of embeddings and classifiers, and those that compare texts."""

INSPECT = Tool(
    "a log of Inspect",
    _holds("log", "sample"),
    {
        "example_id": "name",
        "group_id": "group",
        "source": "sample.input",
        "output": "sample.output.completion|sample.output.choices.0.message.content",
        "system_id": "log.model",
    },
    (ScorePlace("sample.scores", value="value", giver="name", judges=".*"),),
    within_row="sample.metadata",
    encoded=True,
    words={"C": "correct", "I": "incorrect", "P": "partial", "N": "no answer"},
)

BATCH = Tool(
    "a batch of OpenAI's form",
    lambda row: row.has("custom_id") and any(map(row.has, ("response", "body", "error"))),
    {
        "id": "custom_id",
        "source": "body.messages|body.input|body.prompt",
        "output": "response.body.choices.0.message.content|response.body.output.-1.content"
        "|response.body.choices.0.text",
        "model": "response.body.model",
    },
    key="custom_id",
)

TOOLS = (
    Tool(
        "results of promptfoo",
        _holds("gradingResult", "promptIdx"),
        {
            "source": "prompt.raw",
            "output": "response.output",
            "system": "provider.label",
            "model": "provider.id",
            "group": "testIdx",
        },
        (
            ScorePlace(
                "gradingResult.componentResults",
                name="assertion.metric|assertion.type",
                giver="assertion.type",
                judges=_PROMPTFOO_JUDGES,
                people="human",
                checks=".+",
                detail="assertion.type",
                apart="assertion.value",
                void={"metadata.graderError": True},
            ),
            ScorePlace("namedScores"),
        ),
        ("results.results", "results"),
    ),
    Tool(
        "a test run of DeepEval",
        _holds("actualOutput"),
        {"source": "input", "output": "actualOutput"},
        (
            ScorePlace(
                "metricsData", giver="evaluationModel", judges=".+", detail="evaluationModel"
            ),
        ),
        ("testCases",),
    ),
    Tool(
        "samples of lm-eval",
        _holds("doc_id", "filtered_resps"),
        {
            "id": "doc_id",
            "source": "arguments.gen_args_0.arg_0|arguments.0.0",
            "output": "resps.0.0|filtered_resps.0",
        },
        (
            ScorePlace("metrics", giver="name", judges=".*", detail="filter"),
            ScorePlace(
                "", r"(?P<name>exact_match|acc)", giver="name", judges=".*", detail="filter"
            ),
        ),
        key="doc_id",
    ),
    Tool(
        "traces and tables of MLflow",
        _is_mlflow,
        {
            "id": "trace_id|info.trace_id",
            "source": "request|data.spans.0.attributes.mlflow.spanInputs|info.request_preview",
            "output": "response|data.spans.0.attributes.mlflow.spanOutputs|info.response_preview",
        },
        (
            ScorePlace(
                "assessments|info.assessments|trace.info.assessments",
                name="assessment_name|name",
                value="feedback.value",
                giver="source.source_type",
                judges="LLM_JUDGE|AI_JUDGE",
                people="HUMAN",
                checks="CODE",
                detail="source.source_id",
                rater="source.source_id",
                void={"valid": False},
            ),
            ScorePlace(
                "",
                _MLFLOW_SCORE,
                giver="name",
                judges=rf"(?!{_MLFLOW_CHECKS}).*",
                checks=_MLFLOW_CHECKS,
            ),
        ),
        ("traces",),
        others=r"(?!(trace|spans|tags|info|data|assessments)$|trace_|request|response|client_"
        r"|execution_|state$|status$|timestamp).+",
        encoded=True,
    ),
    Tool(
        "scores of Langfuse without texts",
        _holds("traceId", "dataType", "source"),
        instead="export the traces, whose rows have texts and scores",
    ),
    Tool(
        "traces of Langfuse",
        lambda row: row.has("output") and (row.has("bookmarked") or row.has("htmlPath")),
        {
            "id": "id",
            "source": "input",
            "output": "output",
            "group": "sessionId",
            "system": "version",
        },
        (
            ScorePlace(
                "scores",
                value="stringValue|value",
                giver="source",
                judges="EVAL",
                people="ANNOTATION",
                rater="authorUserId",
            ),
            ScorePlace(
                "",
                r"(?!(id|timestamp|name|userId|sessionId|release|version|environment|tags"
                r"|bookmarked|public|input|output|metadata|comments|projectId|createdAt|updatedAt"
                r"|externalId|observations|htmlPath|latency|totalCost|scores)$)(?P<name>.+)",
            ),
        ),
        ("data",),
        encoded=True,
    ),
    Tool(
        "items of OpenAI Evals",
        _holds("datasource_item_id", "results", "sample"),
        {
            "id": "id",
            "group": "datasource_item_id",
            "source": "sample.input",
            "output": "sample.output",
            "system": "sample.model",
        },
        (
            ScorePlace(
                "results",
                giver="type",
                judges=r"(score|label)[_-]model.*",
                checks=r"(string|text|python|multi).*",
                apart="type",
            ),
        ),
        ("data",),
        encoded=True,
    ),
    Tool(
        "the log of an OpenAI eval",
        lambda row: row.has("spec") or (row.has("event_id") and row.has("sample_id")),
        instead="give the items of a run (evals.runs.output_items.list), or a table with a row a "
        "text",
    ),
)
