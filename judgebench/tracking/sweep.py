"""The summary of a sweep on Weights & Biases, beside the runs of its trials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.utilities import rank_zero_only
from matplotlib.figure import Figure

from judgebench.results.series import range_of
from judgebench.tracking.values import files_under, pixels, table


@rank_zero_only
def log_sweep(
    logger: WandbLogger, config: Mapping[str, Any], summary: Mapping[str, Any], figures: Mapping[str, Figure]
) -> None:
    """Logs a finished sweep and closes the run: the best setting of every cell as a table and as scalars, the figures.

    Args:
        config: resolved, plain, secrets masked.
        summary: see `judgebench.study.summary.summarize`.
    """
    run = logger.experiment
    failed = True
    try:
        import wandb

        with files_under(Path(run.dir).parent):
            logger.log_hyperparams(dict(config))
            columns = ["metric", "dimension", "range", *summary["params"], "dev", "test", "trial"]
            rows = [_row(cell, summary["params"]) for cell in summary["cells"] if cell["best"]]
            content: dict[str, Any] = {"best": table(columns, rows)}
            for name, figure in figures.items():
                content[f"figures/{name}"] = wandb.Image(pixels(figure), caption=str(figure.get_label()) or None)
            run.log(content)
            for cell in summary["cells"]:
                for split in ("dev", "test") if cell["best"] else ():
                    if cell["best"][split] is not None:
                        name = f"best/{split}/{cell['dimension']}/{range_of(cell)}/{cell['metric']}"
                        run.summary[name] = cell["best"][split]
        failed = False
    finally:
        run.finish(exit_code=int(failed))


def _row(cell: Mapping[str, Any], params: list[str]) -> list[Any]:
    best = cell["best"]
    chosen = [best["params"].get(key) for key in params]
    return [cell["metric"], cell["dimension"], str(range_of(cell)), *chosen, best["dev"], best["test"], best["trial"]]
