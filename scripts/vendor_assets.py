"""Builds judgebench/report/assets/vendor: the parts of two JavaScript libraries that report.html carries with it.

    python scripts/vendor_assets.py          fetch, check, bundle, write
    python scripts/vendor_assets.py --check  fetch, check, bundle, and compare with what lies there

Needs Node's `npm`. What is fetched must have the SHA-256 that stands here, and so must what comes out of it: a report
is a page that people open, so nothing enters it unseen. To take a newer version, change the pins and read what has
changed.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).resolve().parent.parent / "judgebench" / "report" / "assets" / "vendor"
ESBUILD = "esbuild@0.28.2"
"""What bundles and minifies; nothing of it ends up in the report."""


@dataclass(frozen=True)
class Library:
    """One library: its package, what of it is taken, the digests of the package and of the bundle, its style sheet."""

    package: str
    version: str
    packed: str
    entry: str
    variable: str
    bundled: str
    style: str | None = None

    @property
    def name(self) -> str:
        return self.package.split("-")[0]


_TABULATOR = """
import {Tabulator, SortModule, FilterModule, InteractionModule, FormatModule, FrozenColumnsModule, ResizeTableModule}
    from "./package/dist/js/tabulator_esm.mjs";
Tabulator.registerModule([SortModule, FilterModule, InteractionModule, FormatModule, FrozenColumnsModule,
    ResizeTableModule]);
export {Tabulator};
"""

LIBRARIES = (
    Library(
        "tabulator-tables",
        "6.5.3",
        "a3aeb833e5cf924c8a686fa6748c1070c5fde8e605e0b1734000c35b78571a9b",
        _TABULATOR,
        "TabulatorTables",
        "d7e715672ddf4b10fc63668e3aeaa92c3b471dac2a95eda37010e3898613df29",
        "package/dist/css/tabulator_simple.min.css",
    ),
    Library(
        "diff",
        "9.0.0",
        "b898bf23c95594607576e25ddd4013f1d51ed0e862aaf0732815830c87b3b58f",
        'export {diffWordsWithSpace} from "./package/libesm/index.js";',
        "JsDiff",
        "315fa6fa042fa08a8b5ae4ec84763bec1dfb9ca73a5779f1ad79c28f03cee9a4",
    ),
)


def build(library: Library, folder: Path) -> dict[str, bytes]:
    """File name -> content of what is vendored of a library, made in an empty `folder`."""
    packed = _run(["npm", "pack", "--silent", f"{library.package}@{library.version}"], folder).strip().splitlines()[-1]
    _expect(library.packed, (folder / packed).read_bytes(), packed)
    with tarfile.open(folder / packed) as archive:
        archive.extractall(folder, filter="data")
    (folder / "entry.mjs").write_text(library.entry, encoding="utf-8")
    _run(["npm", "install", "--silent", "--no-save", "--ignore-scripts", "--prefix", "tools", ESBUILD], folder)
    options = ["--bundle", "--minify", "--format=iife", "--target=es2022", f"--global-name={library.variable}"]
    _run([str(folder / "tools/node_modules/.bin/esbuild"), "entry.mjs", *options, "--outfile=out.js"], folder)
    told = (
        f"/* {library.package} {library.version}, bundled by scripts/vendor_assets.py; see {library.name}.LICENSE */\n"
    )
    script = told.encode() + (folder / "out.js").read_bytes()
    for mark in (b"</script", b"<!--"):  # either would end or spoil the page's own script element
        if mark in script.lower():
            raise SystemExit(f"{library.package} {library.version} holds {mark!r}, which cannot stand in a page.")
    _expect(library.bundled, script, f"{library.name}.js")
    taken = {f"{library.name}.js": script, f"{library.name}.LICENSE": (folder / "package/LICENSE").read_bytes()}
    if library.style:
        lines = (folder / library.style).read_bytes().splitlines(keepends=True)
        taken[f"{library.name}.css"] = b"".join(line for line in lines if not line.startswith(b"/*# sourceMappingURL"))
    return taken


def _run(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def _expect(digest: str, content: bytes, name: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise SystemExit(f"{name}: its SHA-256 is {found}, and {digest or 'none'} was expected.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with what lies there, and write nothing")
    check = parser.parse_args().check
    wrong = []
    for library in LIBRARIES:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in build(library, Path(folder)).items():
                path = VENDOR / name
                if not check:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                elif not path.is_file() or path.read_bytes() != content:
                    wrong.append(name)
    if wrong:
        print(f"{', '.join(wrong)}: not what the pinned versions give.", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
