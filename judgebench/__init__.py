"""judgebench measures how far an LLM judge can be trusted, and repairs it.

Example:
    import judgebench

    results = judgebench.run(["+exp=demo", "data.limit_groups=4"])
    results.frame("metrics")
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from judgebench.runtime.threads import settle_threads

settle_threads()  # before anything imports numpy or torch, which read it then

if TYPE_CHECKING:  # pandas takes a second to import, torch many
    from judgebench.judges.judge import ReadingJudge
    from judgebench.judges.local.callbacks import ReadingWriter
    from judgebench.judges.local.loop import JudgeModule
    from judgebench.judges.local.prompts import PromptDataModule
    from judgebench.results.results import Results
    from judgebench.types import Condition, ScoreRange
    from judgebench.words.errors import UserError

    CONF: str
    """The folder of the configuration, as `hydra.initialize_config_dir` takes it."""

__all__ = [
    "CONF",
    "Condition",
    "JudgeModule",
    "PromptDataModule",
    "ReadingJudge",
    "ReadingWriter",
    "Results",
    "ScoreRange",
    "UserError",
    "run",
]

_HOMES = {
    "Condition": "judgebench.types",
    "JudgeModule": "judgebench.judges.local.loop",
    "PromptDataModule": "judgebench.judges.local.prompts",
    "ReadingJudge": "judgebench.judges.judge",
    "ReadingWriter": "judgebench.judges.local.callbacks",
    "Results": "judgebench.results.results",
    "ScoreRange": "judgebench.types",
    "UserError": "judgebench.words.errors",
}
"""Public name -> the module where it is defined, which is imported when the name is first used."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "CONF":
        from judgebench.config.choices import FOLDER

        return str(FOLDER)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def run(overrides: Sequence[str] = ()) -> Results:
    """Runs one experiment, as `python -m judgebench OVERRIDES` does: it prints the same and leaves
    the same run folder.

    Args:
        overrides: of the configuration, as on the command line but without the shell's quotes:
            "+exp=demo", "ranges=[[1,5],[1,10]]".

    Returns:
        Its results; `results.path` is the run folder. They are empty, and `path` is None, after
        `dry_run=true` and in a process that only helped another to read.

    Raises:
        judgebench.UserError: a mistake that the user can mend, in the sentence that the command
            line prints.
    """
    from judgebench.command.cli import run_overrides

    return run_overrides(overrides)
