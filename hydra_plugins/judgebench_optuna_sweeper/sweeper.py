"""The plugin's class. Hydra imports it whenever it starts, so what takes time is imported when a
sweep begins."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_launcher import BasicLauncher
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class OptunaSweeper(Sweeper):
    """Optuna under Hydra's multirun. conf/hydra/sweeper/optuna.yaml lists the keys and says what
    each does.

    A job returns a number, a list of numbers (one an objective), or a mapping of `values` (these)
    and `attributes` (what else the study should remember of the trial).
    """

    def __init__(self, params: Any = None, direction: Any = "maximize", **settings: Any) -> None:
        # looked at when the sweep begins: what is raised here, Hydra shows as a traceback
        self._params = params
        self._settings = {"directions": direction, **settings}
        self.config: DictConfig | None = None
        self.launcher: Launcher | None = None
        self.hydra_context: HydraContext | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Takes what Hydra gives, and makes the launcher."""
        from judgebench.study.jobs import SilencedStdout

        self.hydra_context = hydra_context
        self.config = config
        self._folder = Path(str(config.hydra.sweep.dir))
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context,
            task_function=SilencedStdout(
                task_function, str(self._folder.absolute() / "trials.log")
            ),
            config=config,
        )

    def sweep(self, arguments: list[str]) -> None:
        """Works on the study until it is complete; a user's mistake is one sentence and exit code
        2."""
        from hydra.errors import HydraException
        from omegaconf.errors import OmegaConfBaseException

        from judgebench.settings.fields import plain
        from judgebench.study.space import Settings, Space
        from judgebench.study.sweep import run_sweep
        from judgebench.words.errors import UserError

        assert self.hydra_context is not None
        assert self.launcher is not None
        launcher = self.launcher
        try:
            values = {key: plain(value) for key, value in self._settings.items()}
            try:
                settings = Settings(**values)
            except TypeError as error:
                raise UserError(
                    f"hydra.sweeper: {str(error).rpartition('__init__() ')[2]}"
                ) from error
            if isinstance(launcher, BasicLauncher):
                # it runs a batch one by one, and samplers choose better when they know more
                settings = replace(settings, n_jobs=1)
            params = {} if self._params is None else self._params
            if not isinstance(params, Mapping):
                raise UserError(
                    f"hydra.sweeper.params: {params!r} is no mapping of keys to what they are "
                    "swept over, as in {decoding.lambda: '0.1,0.5'}."
                )
            space = Space.parse(dict(params), arguments, self.hydra_context.config_loader)
            # one job is composed: a key that is none would otherwise fail every trial
            first: dict[str, Any] = {
                key: param.values[0] if param.values else vars(param.distribution)["low"]
                for key, param in space.params.items()
            }
            try:
                self.validate_batch_is_legal([space.overrides(first)])
            except (HydraException, OmegaConfBaseException) as error:
                raise UserError(f"hydra.sweeper.params: {' '.join(str(error).split())}") from error
            run_sweep(
                settings,
                space,
                lambda jobs, number: launcher.launch(jobs, initial_job_idx=number),
                self._folder,
            )
        except UserError as error:
            print(f"judgebench: {str(error).rstrip('.')}.", file=sys.stderr)
            sys.exit(2)
