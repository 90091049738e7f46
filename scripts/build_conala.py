"""Builds the embedded data set `conala_sample` from the published human grades of CoNaLa.

The source is `data/to-grade/conala/conala-human-grades.json` of JetBrains-Research/codegen-metrics (Apache-2.0). The
script keeps 48 of its 472 intents, with all six snippets of each and every single grade, and changes nothing in them.

Run it from anywhere, with nothing but the standard library:

    python scripts/build_conala.py conala-human-grades.json            # write conala.jsonl
    python scripts/build_conala.py conala-human-grades.json --check    # exit 1 if conala.jsonl differs
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "judgebench" / "data" / "conala" / "conala.jsonl"
SYSTEMS = ("baseline", "tranx-annot", "snippet", "best-tranx", "best-tranx-rerank", "codex")
# Positions in the source. Drawn at random, once, from intents of which each snippet has three graders or more.
INTENTS = (
    0,
    27,
    30,
    48,
    50,
    53,
    67,
    74,
    77,
    96,
    103,
    104,
    116,
    120,
    135,
    153,
    160,
    164,
    181,
    204,
    209,
    213,
    214,
    217,
    237,
    244,
    262,
    270,
    274,
    281,
    298,
    300,
    301,
    304,
    306,
    324,
    338,
    342,
    349,
    365,
    385,
    395,
    400,
    404,
    430,
    433,
    441,
    453,
)


def rows(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the sample: one snippet each, with its grades."""
    made = []
    for position in INTENTS:
        entry = entries[position]
        for system in SYSTEMS:
            snippet = entry[system]
            made.append(
                {
                    "group": f"c{position}",
                    "system": system,
                    "source": entry["intent"],
                    "output": snippet[0] if isinstance(snippet, list) else snippet,
                    "ratings": {"quality": entry[f"grade-{system}"]},
                }
            )
    return made


def main() -> int:
    """Writes the sample, or compares it with what stands there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, help="conala-human-grades.json")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    given = parser.parse_args()
    built = rows(json.loads(given.source.read_text(encoding="utf-8")))
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in built)
    if given.check:
        same = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text
        print(f"{TARGET.name}: {'as built' if same else 'differs from what would be built'}")
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"{TARGET}: {len(built)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
