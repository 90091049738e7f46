"""judgebench measures how far an LLM judge can be trusted, and repairs it.

Example:
    import judgebench

    results = judgebench.run(["+exp=demo", "data.limit_groups=4"])
    results.frame("metrics")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # pandas takes a second to import, torch many
    from omegaconf import DictConfig

    from judgebench.errors import UserError
    from judgebench.results.results import Results

__all__ = ["Results", "UserError", "run"]


def __getattr__(name: str) -> Any:
    if name == "Results":
        from judgebench.results.results import Results

        return Results
    if name == "UserError":
        from judgebench.errors import UserError

        return UserError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def run(overrides: Sequence[str] = ()) -> Results:
    """Runs one experiment, as `python -m judgebench OVERRIDES` does: it prints the same and leaves the same run folder.

    Args:
        overrides: of the configuration, as on the command line but without the shell's quotes: "+exp=demo",
            "ranges=[[1,5],[1,10]]".

    Returns:
        Its results; `results.path` is the run folder. They are empty, and `path` is None, after `dry_run=true` and in a
        process that only helped another to read.

    Raises:
        judgebench.UserError: a mistake that the user can mend, in the sentence that the command line prints.
    """
    from judgebench.errors import Refusal, UserError
    from judgebench.refusals import told
    from judgebench.report.hiding import hiding

    if isinstance(overrides, str):
        raise UserError(f"judgebench.run takes a list of overrides; give [{overrides!r}].")
    given = [str(override) for override in overrides]
    with hiding(given):
        try:
            with told(), _composed(given) as config:
                from judgebench.pipeline import run_pipeline
                from judgebench.results.results import Results

                return run_pipeline(config) or Results()
        except Refusal as refusal:
            raise UserError(refusal.sentence) from refusal.__cause__


@contextmanager
def _composed(overrides: Sequence[str]) -> Iterator[DictConfig]:
    """The checked configuration, which is Hydra's own until the block ends; what else was begun with Hydra comes back.

    Raises:
        UserError: mistakes in it.
    """
    from hydra import compose
    from hydra.core.hydra_config import HydraConfig
    from hydra.errors import HydraException
    from omegaconf import open_dict
    from omegaconf.errors import OmegaConfBaseException

    from judgebench.asked.first import look
    from judgebench.errors import UserError
    from judgebench.mistaken import Command
    from judgebench.overrides import Overrides
    from judgebench.study.job import check_one_run

    if flags := [override for override in overrides if override.startswith("-")]:
        raise UserError(f"{flags[0]}: flags belong to the command line; judgebench.run takes overrides, as KEY=VALUE.")
    command = Command("judgebench", "config", overrides)
    command.check(look)
    try:
        with Overrides(command) as conf:
            config = compose(conf.name, list(overrides), return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(command.explained(error)) from error
    hydra_config = HydraConfig.instance()
    before = hydra_config.cfg
    hydra_config.set_config(config)
    try:
        with open_dict(config):
            del config["hydra"]
        check_one_run(HydraConfig.get())
        look(config)
        yield config
    finally:
        hydra_config.cfg = before
