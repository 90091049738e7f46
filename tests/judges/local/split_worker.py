"""`python -m judgebench` several times over in one process, with a word on how much of each model the process holds.

Usage: split_worker.py FOLDER ARGUMENTS [-- ARGUMENTS ...], which leaves own_<rank>.json in the folder.
"""

import json
import os
import sys
from itertools import groupby
from pathlib import Path

from hydra.core.global_hydra import GlobalHydra
from torch.distributed.tensor import DTensor

from judgebench.__main__ import main
from judgebench.judges.local import sharding


def run(folder, commands):
    load, held = sharding.load_split, {}

    def part(value):
        return value.to_local() if isinstance(value, DTensor) else value

    def load_split(source, strategy, mesh):
        model = load(source, strategy, mesh)
        held[source.title] = sum(part(value).nbytes for value in model.parameters())
        return model

    sharding.load_split = load_split
    for command in commands:
        sys.argv[1:] = command
        GlobalHydra.instance().clear()
        main()
    (folder / f"own_{os.environ['RANK']}.json").write_text(json.dumps(held))


if __name__ == "__main__":
    folder, *words = sys.argv[1:]
    run(Path(folder), [list(part) for between, part in groupby(words, lambda word: word == "--") if not between])
