"""The device on which models run: that of the trainer that reads with them."""

from __future__ import annotations

from judgebench.judges.local.models import Trainers
from judgebench.judges.local.ray_runner import RayTrainer


def compute_with(trainer: Trainers) -> None:
    """Models run on the device of this trainer from now on: of two judges in one process, each may
    have a device of its own, and the store's keys name its arithmetic."""
    if isinstance(trainer, RayTrainer):
        trainer.compute_there()
    elif trainer.strategy is not None:
        from judgebench.judges.engine.hardware import compute_on  # torch with it

        compute_on(trainer.strategy.root_device)
