"""A short run of scripts/fuzz.py, which throws odd input at whatever takes input from outside."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "fuzz.py"


def test_some_thousand_cases(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--cases", "6000", "--seed", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert ", 0 broken, seed 1" in done.stdout.splitlines()[-1]
