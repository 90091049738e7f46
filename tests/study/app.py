"""A small Hydra application for sweeps: it waits a moment, notes down that it ran, and returns a number."""

import os
import time
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from judgebench.words.errors import Refusal

ConfigStore.instance().store(
    name="_app",  # begins with _: none of judgebench's own configurations
    node={
        "x": 1.0,
        "y": 2.0,
        "note": "ran.txt",
        "seconds": 0.0,
        "kind": "number",
        "fail": None,
        "hydra": {"sweep": {"dir": "sweep", "subdir": "."}, "output_subdir": None, "run": {"dir": "."}},
    },
)


def note(config: DictConfig, what: str) -> None:
    """One line, written by one system call: many processes share the file."""
    handle = os.open(config.note, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(handle, f"{what} {config.x} {config.y} {os.getpid()}\n".encode())
    os.close(handle)


@hydra.main(version_base="1.3", config_path=None, config_name="_app")
def main(config: DictConfig) -> Any:
    note(config, "begin")
    time.sleep(config.seconds)
    if config.fail == "raise" and config.x == 1:
        raise ValueError("x is one")
    if config.fail == "refuse" and config.x == 1:
        raise Refusal("x: it is one")
    if config.fail == "always":
        raise ValueError("never")
    print("printed by a job")
    note(config, "end")
    value = float(config.x) + 10 * float(config.y)
    kinds = {
        "number": value,
        "list": [float(config.x), -float(config.y)],
        "mapping": {"values": [value], "attributes": {"where": "here"}},
        "nothing": None,
        "undefined": float("nan"),
    }
    return kinds[config.kind]


if __name__ == "__main__":
    main()
