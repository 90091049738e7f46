"""Measures what sweeps and statistics cost: the grid against one reading, the exact path, the bootstrap.

Usage: python scripts/bench_sweeps.py [--json FILE] [--only SECTION ...] [--articles 4] [--data FILE]

Sections, one after the other on the same machine:

- sweep: wall time of the paper's 24-point grid with its one reading (`-m +exp=cd_smollm2 +sweeps=cd_lambda_t`) against
  one run of the same experiment, each in a process and with a store of its own, each trial logged to W&B offline;
- exact: all breakpoints of lambda / t and the exact optimum, see bench_path.py;
- bootstrap: resampled correlations against scipy, see bench_bootstrap.py.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench_bootstrap import bootstrap_section
from bench_path import exact_section

ROOT = Path(__file__).resolve().parents[1]
TRIAL = ("tune=none", "report=false", "metrics.resamples=0", "metrics.levels=[dataset]")
"""What makes one run the same work as one trial."""


def sweep_section(data: str | None, articles: int) -> dict[str, Any]:
    """The grid sweep against one run; `ratio` is of the whole commands, start of Python and import included.

    `below_exact` is how far the grid's best falls below the exact dev optimum, in the worst cell; null without such.
    `computing_ratio` compares seconds of computing, which other work on the machine disturbs less; `trials_ratio`
    compares all trials with the first, which reads: without start, import and the noise of reading twice.
    """
    experiment = ["+exp=cd_smollm2", f"data.limit_groups={articles}", "data.dev_share=0.25", "logger.mode=offline"]
    experiment += [f"data.path={data}"] if data else ["data=mini"]
    with tempfile.TemporaryDirectory() as folder:
        one = _seconds([*experiment, *TRIAL], Path(folder) / "one")
        sweep = _seconds(["-m", *experiment, "+sweeps=cd_lambda_t"], Path(folder) / "sweep")
        study = json.loads((Path(folder) / "sweep/run/study.json").read_text())
        summary = json.loads((Path(folder) / "sweep/run/sweep.json").read_text())
        environment = json.loads((Path(folder) / "one/run/environment.json").read_text())
    below = [cell["below_exact"] for cell in summary["cells"] if cell.get("below_exact") is not None]
    trials = [trial["seconds"] for trial in study["trials"]]
    return {
        "data": Path(data).name if data else "mini",
        "articles": articles,
        "points": len(trials),
        "one_run_seconds": one[0],
        "reading_seconds": environment["seconds"]["read"],
        "sweep_seconds": sweep[0],
        "ratio": sweep[0] / one[0],
        "computing_ratio": sweep[1] / one[1],
        "trial_seconds": sorted(trials[1:])[len(trials) // 2],
        "trials_ratio": sum(trials) / trials[0],
        "below_exact": max(below, default=None),
    }


def _seconds(arguments: Sequence[str], folder: Path) -> tuple[float, float]:
    """Wall seconds and seconds of computing, of all cores together."""
    folder.mkdir()
    begin, before = time.perf_counter(), _computed()
    done = subprocess.run(
        [sys.executable, "-m", "judgebench", *arguments, "store=readings.sqlite", "run_dir=run"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return time.perf_counter() - begin, _computed() - before


def _computed() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    shared = ROOT.parent / "shared" / "data" / "summeval_paired.jsonl"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=str(shared) if shared.exists() else None, help="SummEval's paired JSONL")
    parser.add_argument("--articles", type=int, default=4, help="articles of the sweep, all dimensions and ranges")
    parser.add_argument("--only", nargs="+", default=["sweep", "exact", "bootstrap"], metavar="SECTION")
    parser.add_argument("--json", help="where the numbers go")
    given = parser.parse_args()
    sections: dict[str, Callable[[], dict[str, Any]]] = {
        "sweep": lambda: sweep_section(given.data, given.articles),
        "exact": exact_section,
        "bootstrap": bootstrap_section,
    }
    if unknown := [name for name in given.only if name not in sections]:
        parser.error(f"--only: {', '.join(unknown)} is not among {', '.join(sections)}")
    found: dict[str, Any] = {"cores": os.cpu_count()}
    for name in given.only:
        found[name] = sections[name]()
        print(f"{name}: {json.dumps(found[name], indent=1)}", flush=True)
        if given.json:
            Path(given.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
