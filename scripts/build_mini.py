"""Builds the embedded data set `mini` from its hand-written articles.

`judgebench/data/mini/articles.json` holds twelve short articles, one faithful summary of each and a list of swaps.
From these this script makes six summaries of each article and the scores that follow from how they were made.
No human rated them: the field `human` of a row holds the score of the construction, taken from `SCORES`.

Run it from anywhere, with nothing but the standard library:

    python scripts/build_mini.py            # write judgebench/data/mini/mini.jsonl
    python scripts/build_mini.py --check    # exit 1 if the committed file is not what would be built
    python scripts/build_mini.py --table    # print the table of scores as it stands in DATA_CARD.md
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA_DIR = Path(__file__).resolve().parents[1] / "judgebench" / "data" / "mini"
SEED = 1207
DIMENSIONS = ("coherence", "consistency", "fluency", "relevance")
SYSTEMS = ("faithful", "shuffled", "swapped", "off_topic", "garbled", "lead")
LEAD_SENTENCES = 2
# The off-topic half comes from the article this many places further on, so that each article is used once.
PARTNER_OFFSET = 5


@dataclass(frozen=True)
class Article:
    """One hand-written article with its faithful summary and the swaps that make the summary false."""

    id: str
    title: str
    sentences: tuple[str, ...]
    faithful: tuple[str, ...]
    swaps: tuple[tuple[str, str], ...]


GARBLE_LEVELS = {"light": (0.7, 0.4), "medium": (0.6, 0.6), "heavy": (0.5, 0.8)}
"""Which share of a summary is kept, and of its two-word blocks then damaged."""

# The scores by construction: (system, strength) -> what it is, and (coherence, consistency, fluency, relevance).
#
# shuffled   The facts are all there and true (5, 5). Order is what coherence measures, so it falls with the share of
#            sentence pairs that stand the wrong way round. A "She then" with nobody before it reads a little oddly.
# swapped    Order and language are untouched; a false statement can loosen a link, hence 4.5. Consistency falls with
#            the share of false sentences. The points are the right ones but told wrongly, hence 4 for relevance.
# off_topic  The foreign part is neither supported by the article nor relevant to it, so both fall with its share.
#            The break in the middle ruins the coherence. Every sentence is sound.
# garbled    Broken language first of all. The more is cut off, the less of the content is left; the more is
#            transposed or lost, the less of what is left can still be found in the article.
# lead       Two sound sentences of the article itself, but only its opening: the rest of the story is missing, and
#            as a text it stops without an end.
SCORES: dict[tuple[str, str], tuple[str, tuple[float, ...]]] = {
    ("faithful", "all"): ("as written", (5.0, 5.0, 5.0, 5.0)),
    ("shuffled", "half"): ("half of the sentence pairs inverted", (2.5, 5.0, 4.5, 5.0)),
    ("shuffled", "most"): ("more than half of the sentence pairs inverted", (2.0, 5.0, 4.5, 5.0)),
    ("shuffled", "reversed"): ("all sentence pairs inverted", (1.5, 5.0, 4.5, 5.0)),
    ("swapped", "half"): ("half of the sentences made false", (4.5, 2.0, 5.0, 4.0)),
    ("swapped", "most"): ("more than half of the sentences made false", (4.5, 1.5, 5.0, 4.0)),
    ("swapped", "every"): ("every sentence made false", (4.5, 1.0, 5.0, 4.0)),
    ("off_topic", "half"): ("half of the sentences are foreign", (2.0, 2.5, 5.0, 2.5)),
    ("off_topic", "most"): ("two thirds of the sentences are foreign", (1.5, 2.0, 5.0, 2.0)),
    ("garbled", "light"): ("70% kept, 40% of its blocks damaged", (1.5, 3.0, 2.0, 2.5)),
    ("garbled", "medium"): ("60% kept, 60% of its blocks damaged", (1.0, 2.5, 1.5, 2.0)),
    ("garbled", "heavy"): ("50% kept, 80% of its blocks damaged", (1.0, 2.0, 1.0, 1.5)),
    ("lead", "all"): ("the first two sentences of the article", (4.0, 5.0, 5.0, 3.0)),
}


def load_articles(path: Path = DATA_DIR / "articles.json") -> list[Article]:
    """Read the hand-written file."""
    articles = []
    for entry in json.loads(path.read_text(encoding="utf-8")):
        swaps = tuple((a, b) for a, b in entry["swaps"])
        articles.append(Article(entry["id"], entry["title"], tuple(entry["article"]), tuple(entry["faithful"]), swaps))
    return articles


def rng_for(article_id: str, system: str) -> random.Random:
    """A generator of its own for each article and construction, so that adding one leaves the others alone."""
    return random.Random(f"{SEED}/{article_id}/{system}")


def inverted_share(order: Sequence[int]) -> float:
    """Share of the pairs of sentences that stand the wrong way round: 0 is the right order, 1 the reverse.

    >>> inverted_share([0, 1, 2]), inverted_share([2, 1, 0])
    (0.0, 1.0)
    """
    pairs = list(itertools.combinations(order, 2))
    return sum(first > second for first, second in pairs) / len(pairs)


def swap(sentence: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Exchange both phrases of every pair at once, longest phrase first, whole words and whole numbers only.

    >>> swap("Ann beat Bo by 8 points.", [("Ann", "Bo"), ("8", "18")])
    'Bo beat Ann by 18 points.'
    """
    table: dict[str, str] = {}
    for a, b in pairs:
        for old, new in ((a, b), (b, a)):
            if old in table:
                raise ValueError(f"{old!r} stands in more than one swap")
            table[old] = new
    phrases = "|".join(re.escape(phrase) for phrase in sorted(table, key=len, reverse=True))
    pattern = re.compile(rf"(?<!\w)(?<!\d[.,:])(?:{phrases})(?!\w)(?![.,:]\d)")
    swapped = pattern.sub(lambda match: table[match.group()], sentence)
    return swapped[:1].upper() + swapped[1:]


def garble(text: str, kept: float, damaged: float, rng: random.Random) -> str:
    """Cut the text short in the middle of a sentence and damage some of its two-word blocks.

    The damaged blocks take turns at losing a word, saying a word twice and having their words exchanged.
    """
    words = text.split()
    words = words[: round(kept * len(words))]
    while words[-1][-1] in ".,":
        words.pop()
    starts = list(range(0, len(words) - 1, 2))
    ranked = sorted(starts, key=lambda _: rng.random())
    chosen = sorted(ranked[: round(damaged * len(starts))])
    blocks = {start: words[start : start + 2] for start in range(0, len(words), 2)}
    for turn, start in enumerate(chosen):
        first, second = blocks[start]
        keep_first = rng.random() < 0.5
        if turn % 3 == 0:
            blocks[start] = [first] if keep_first else [second]
        elif turn % 3 == 1:
            blocks[start] = [first, first, second] if keep_first else [first, second, second]
        else:
            blocks[start] = [second, first]
    return " ".join(word for block in blocks.values() for word in block)


def make_shuffled(article: Article) -> tuple[str, str]:
    """The faithful sentences scrambled: the opening one is never first, and half of the pairs or more are inverted."""
    orders = itertools.permutations(range(len(article.faithful)))
    wrong = [order for order in orders if order[0] != 0 and inverted_share(order) >= 0.5]
    order = wrong[int(rng_for(article.id, "shuffled").random() * len(wrong))]
    share = inverted_share(order)
    strength = "reversed" if share == 1.0 else "most" if share > 0.5 else "half"
    return " ".join(article.faithful[i] for i in order), strength


def make_swapped(article: Article) -> tuple[str, str]:
    """The faithful summary with its facts exchanged; refuses a swap that changes nothing."""
    for pair in article.swaps:
        if all(swap(sentence, [pair]) == sentence for sentence in article.faithful):
            raise ValueError(f"{article.id}: the swap {pair} changes nothing")
    changed = [swap(sentence, article.swaps) for sentence in article.faithful]
    false = sum(new != old for new, old in zip(changed, article.faithful, strict=True))
    if 2 * false < len(changed):
        raise ValueError(f"{article.id}: the swaps reach {false} of {len(changed)} sentences, which is less than half")
    return " ".join(changed), "every" if false == len(changed) else "most" if 2 * false > len(changed) else "half"


def make_all(articles: Sequence[Article]) -> list[dict[str, tuple[str, str]]]:
    """For each article: construction -> (summary, strength), in the order of `SYSTEMS`."""
    made = []
    for index, article in enumerate(articles):
        whole, count = " ".join(article.faithful), len(article.faithful)
        # the first half of the faithful summary, then the opening sentences of another article's summary
        other, kept = articles[(index + PARTNER_OFFSET) % len(articles)], count // 2
        foreign = " ".join(article.faithful[:kept] + other.faithful[: count - kept])
        # the articles take turns at the three levels of garbling
        strength = list(GARBLE_LEVELS)[index % len(GARBLE_LEVELS)]
        garbled = garble(whole, *GARBLE_LEVELS[strength], rng_for(article.id, "garbled"))
        summaries = (
            (whole, "all"),
            make_shuffled(article),
            make_swapped(article),
            (foreign, "half" if 2 * kept == count else "most"),
            (garbled, strength),
            (" ".join(article.sentences[:LEAD_SENTENCES]), "all"),
        )
        made.append(dict(zip(SYSTEMS, summaries, strict=True)))
    return made


def build_rows(articles: Sequence[Article]) -> list[dict[str, Any]]:
    """All rows of the data set, in the order of the articles and of `SYSTEMS`."""
    return [
        {
            "example_id": f"{article.id}-{system}",
            "group_id": article.id,
            "system_id": system,
            "source": " ".join(article.sentences),
            "output": output,
            "human": dict(zip(DIMENSIONS, SCORES[system, strength][1], strict=True)),
        }
        for article, summaries in zip(articles, make_all(articles), strict=True)
        for system, (output, strength) in summaries.items()
    ]


def score_table(articles: Sequence[Article]) -> str:
    """The table of scores in Markdown, as it stands in the data card."""
    lines = [
        "| system | strength | rows | " + " | ".join(DIMENSIONS) + " |",
        "|---|---|---:|" + "---:|" * len(DIMENSIONS),
    ]
    made = [(system, strength) for each in make_all(articles) for system, (_, strength) in each.items()]
    for (system, strength), (what, scores) in SCORES.items():
        cells = " | ".join(f"{score:g}" for score in scores)
        lines.append(f"| `{system}` | {what} | {made.count((system, strength))} | {cells} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Build, check or describe the data set; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build the embedded data set `mini`.")
    parser.add_argument("--out", type=Path, default=DATA_DIR / "mini.jsonl", help="the file to write or to check")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file is not what is built")
    parser.add_argument("--table", action="store_true", help="write nothing; print the table of scores")
    args = parser.parse_args(argv)

    articles = load_articles()
    if args.table:
        print(score_table(articles), end="")
        return 0
    built = "".join(json.dumps(row) + "\n" for row in build_rows(articles))
    if not args.check:
        args.out.write_text(built, encoding="utf-8", newline="\n")
        print(f"wrote {built.count(chr(10))} rows to {args.out}")
        return 0
    if not args.out.is_file() or args.out.read_bytes() != built.encode("utf-8"):
        print(f"{args.out} is not what scripts/build_mini.py builds; run it again", file=sys.stderr)
        return 1
    print(f"{args.out} is up to date")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
