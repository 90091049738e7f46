"""With what code, on what machine a run was made."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import judgebench

PACKAGES = (
    *("judgebench", "torch", "lightning", "transformers", "accelerate", "numpy", "scipy", "pandas", "pyarrow"),
    *("hydra-core", "omegaconf", "optuna", "wandb", "matplotlib", "httpx"),
)
"""The packages whose versions can change a run's numbers or files."""


def describe_environment(
    *,
    device: str,
    model_fingerprints: Mapping[str, Any],
    seconds: Mapping[str, float],
    tokens: Mapping[str, int],
    served: Mapping[str, Any] | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """The content of environment.json: package versions (null: not installed), Python, platform, how products in
    float32 are computed (highest: in float32), the code's git commit (null: no checkout), and the arguments."""
    import torch  # here: run folders are asked about before torch is needed

    packages: dict[str, str | None] = dict.fromkeys(PACKAGES)
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    commit, changed = code_version(Path(judgebench.__file__).parent)
    return {
        "packages": packages,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "float32_products": torch.get_float32_matmul_precision(),
        "git_commit": commit,
        "git_changed": changed,
        "command": command,
        "device": device,
        "model_fingerprints": dict(model_fingerprints),
        "seconds": dict(seconds),
        "tokens": dict(tokens),
        **({} if served is None else {"served": dict(served)}),
    }


def code_version(package: Path) -> tuple[str | None, bool | None]:
    """The commit of the checkout that `package` belongs to, and whether its tracked files were changed since.

    `(None, None)` for an installed package, even if its virtual environment lies inside some other repository.
    """
    # a tracked file, not just a repository, shows that the checkout around the package is its own
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None, None
    changes = _git(package, "status", "--porcelain", "--untracked-files=no")
    return _git(package, "rev-parse", "HEAD"), None if changes is None else bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):  # no git, or a file system too slow to ask: the run matters more
        return None
    return done.stdout.strip() if done.returncode == 0 else None
