"""The embedded data set `mini` is what its script builds, and every construction does what it says."""

from __future__ import annotations

import doctest
import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from judgebench.data.benchmarks import Mini


def test_the_embedded_data_passes_every_check_and_splits():
    data = Mini()
    data.setup()
    assert data.name == "mini"
    assert data.dimensions == ("coherence", "consistency", "fluency", "relevance", "joint")
    assert data.scale == dict.fromkeys(data.dimensions, (1.0, 5.0))
    assert set(data.split.values()) == {"dev", "test"}


def test_it_takes_the_common_settings():
    data = Mini(limit_groups=2, dev_share=0.5, seed=3)
    data.setup()
    assert sorted(data.split.values()) == ["dev", "test"]
    assert {example.group_id for example in data.examples} == set(data.split)


ROOT = Path(__file__).resolve().parents[2]
MINI = ROOT / "judgebench" / "data" / "mini"
SCRIPT = ROOT / "scripts" / "build_mini.py"


def _load_script():
    spec = importlib.util.spec_from_file_location("build_mini_under_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


build_mini = _load_script()
ARTICLES = build_mini.load_articles()
BY_ID = {article.id: article for article in ARTICLES}
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (MINI / "mini.jsonl").read_text("utf-8").splitlines()]
OUTPUT = {(row["group_id"], row["system_id"]): row["output"] for row in ROWS}
HUMAN = {(row["group_id"], row["system_id"]): row["human"] for row in ROWS}

each_article = pytest.mark.parametrize("article", ARTICLES, ids=lambda article: article.id)


def _words(text):
    return len(text.split())


def _sentences(text):
    return re.split(r"(?<=\.) (?=[A-Z])", text)


# The file


def test_committed_file_is_a_fresh_build():
    assert (MINI / "mini.jsonl").read_bytes() == build_mini.render(build_mini.build_rows(ARTICLES)).encode()


def test_check_accepts_what_was_built_and_refuses_anything_else(tmp_path, capsys):
    out = tmp_path / "mini.jsonl"
    assert build_mini.main(["--check", "--out", str(out)]) == 1
    assert "missing" in capsys.readouterr().err
    assert build_mini.main(["--out", str(out)]) == 0
    assert build_mini.main(["--check", "--out", str(out)]) == 0
    out.write_bytes(out.read_bytes().replace(b"Tallowford", b"Tallowfort", 1))
    before = out.read_bytes()
    assert build_mini.main(["--check", "--out", str(out)]) == 1
    assert "is not what" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_build_does_not_depend_on_the_process(tmp_path):
    """A fresh interpreter with another hash seed and no third-party packages builds the same bytes."""
    out = tmp_path / "mini.jsonl"
    command = [sys.executable, "-I", "-S", str(SCRIPT), "--out", str(out)]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    assert out.read_bytes() == (MINI / "mini.jsonl").read_bytes()


def test_doctests_of_the_script():
    result = doctest.testmod(build_mini)
    assert result.attempted >= 2
    assert result.failed == 0


def test_rows_and_their_names():
    assert len(ROWS) == 72
    assert [(row["group_id"], row["system_id"]) for row in ROWS] == [
        (f"mini-{number:02d}", system) for number in range(1, 13) for system in build_mini.SYSTEMS
    ]
    assert len(build_mini.SYSTEMS) == 6
    for row in ROWS:
        assert list(row) == ["example_id", "group_id", "system_id", "source", "output", "human"]
        assert row["example_id"] == f"{row['group_id']}-{row['system_id']}"
        assert row["source"] == BY_ID[row["group_id"]].text


def test_no_two_texts_are_the_same():
    assert len({row["output"] for row in ROWS}) == 72
    assert len({row["source"] for row in ROWS}) == 12


def test_plain_ascii():
    for path in (MINI / "articles.json", MINI / "mini.jsonl", MINI / "DATA_CARD.md", SCRIPT):
        text = path.read_bytes()
        assert text.isascii(), path
        assert b"\r" not in text, path
    assert all(row["output"].isprintable() and row["source"].isprintable() for row in ROWS)
    assert not any("  " in row["output"] or "  " in row["source"] for row in ROWS)


# The hand-written texts


@each_article
def test_lengths_of_the_hand_written_texts(article):
    assert 6 <= len(article.sentences) <= 9
    assert 115 <= _words(article.text) <= 150
    assert 3 <= len(article.faithful) <= 4
    assert 40 <= _words(" ".join(article.faithful)) <= 65
    assert len(article.swaps) >= 2


@each_article
def test_a_listed_sentence_is_one_sentence(article):
    assert _sentences(article.text) == list(article.sentences)
    assert _sentences(" ".join(article.faithful)) == list(article.faithful)


@each_article
def test_faithful_numbers_and_names_stand_in_the_article(article):
    """Digits and capitalised words inside a sentence of the summary are taken from the article."""
    known = set(re.findall(r"[A-Za-z]+|\d[\d.,:]*\d|\d", article.text))
    for sentence in article.faithful:
        told = re.findall(r"\d[\d.,:]*\d|\d|(?<=[a-z,\d] )[A-Z][a-z]+", sentence)
        assert set(told) <= known, set(told) - known


@each_article
def test_faithful_sentences_lean_on_what_came_before(article):
    """Half of the later sentences or more begin by pointing back, so that a wrong order can be noticed."""
    back = re.compile(
        r"\b(?:he|she|they|it|its|from it|then|later|afterwards|so far|those who do not|these results|that victory|"
        r"the remaining|in return|in response|as a consequence|the repair|the company|the reason|nobody aboard)\b",
        re.IGNORECASE,
    )
    later = article.faithful[1:]
    assert 2 * sum(bool(back.search(sentence[:45])) for sentence in later) >= len(later)


def test_faithful_is_not_copied_from_the_article():
    for article in ARTICLES:
        assert not set(article.faithful) & set(article.sentences), article.id


# The constructions


@each_article
def test_faithful(article):
    assert OUTPUT[article.id, "faithful"] == " ".join(article.faithful)


@each_article
def test_shuffled_is_another_order_of_the_faithful_sentences(article):
    shuffled = _sentences(OUTPUT[article.id, "shuffled"])
    assert sorted(shuffled) == sorted(article.faithful)
    assert shuffled[0] != article.faithful[0]
    order = [article.faithful.index(sentence) for sentence in shuffled]
    inverted = sum(order[i] > order[j] for j in range(len(order)) for i in range(j))
    share = inverted / (len(order) * (len(order) - 1) / 2)
    assert share >= 0.5
    expected = 2.5 if share == 0.5 else 2.0 if share < 1 else 1.5
    assert HUMAN[article.id, "shuffled"]["coherence"] == expected


@each_article
def test_swapped_took_every_swap(article):
    faithful, swapped = OUTPUT[article.id, "faithful"], OUTPUT[article.id, "swapped"]
    new_sentences = _sentences(swapped)
    assert len(new_sentences) == len(article.faithful)
    assert swapped != faithful
    assert all(sentence[0].isupper() for sentence in new_sentences)

    def count(phrase, text):
        return len(re.findall(rf"(?<![\w])(?<!\d[.,:]){re.escape(phrase.lower())}(?!\w)(?![.,:]\d)", text.lower()))

    for a, b in article.swaps:
        assert a != b
        assert count(a, faithful) > 0, f"{a!r} is not in the summary"
        assert count(b, swapped) >= 1, f"{b!r} did not come in"
        # An exchange trades the counts, a replacement brings the first to zero.
        assert count(a, swapped) == count(b, faithful), f"{a!r} was left standing"
        assert count(b, swapped) == count(a, faithful), f"{b!r} came in too often or not everywhere"

    changed = sum(new != old for new, old in zip(new_sentences, article.faithful, strict=True))
    assert 2 * changed >= len(article.faithful)
    expected = 1.0 if changed == len(article.faithful) else 1.5 if 2 * changed > len(article.faithful) else 2.0
    assert HUMAN[article.id, "swapped"]["consistency"] == expected


@each_article
def test_swapped_sentences_do_not_stand_in_the_article(article):
    changed = [s for s in _sentences(OUTPUT[article.id, "swapped"]) if s not in article.faithful]
    assert changed
    assert not set(changed) & set(article.sentences)


@each_article
def test_off_topic_begins_here_and_ends_in_another_article(article):
    sentences = _sentences(OUTPUT[article.id, "off_topic"])
    kept = len(article.faithful) // 2
    assert kept >= 1
    assert len(sentences) == len(article.faithful)
    assert sentences[:kept] == list(article.faithful[:kept])
    homes = {other.id for other in ARTICLES for sentence in sentences[kept:] if sentence in other.faithful}
    assert len(homes) == 1
    (home,) = homes
    assert home != article.id
    assert sentences[kept:] == list(BY_ID[home].faithful[: len(sentences) - kept])
    assert HUMAN[article.id, "off_topic"]["relevance"] == (2.5 if 2 * kept == len(sentences) else 2.0)


def test_each_article_lends_its_topic_once():
    homes = []
    for article in ARTICLES:
        last = _sentences(OUTPUT[article.id, "off_topic"])[-1]
        homes += [other.id for other in ARTICLES if last in other.faithful]
    assert sorted(homes) == sorted(BY_ID)


@each_article
def test_garbled_is_shorter_broken_and_made_of_the_same_words(article):
    faithful, garbled = OUTPUT[article.id, "faithful"].split(), OUTPUT[article.id, "garbled"].split()
    assert 0.4 * len(faithful) < len(garbled) < 0.75 * len(faithful)
    assert set(garbled) <= set(faithful)
    assert garbled[-1][-1] not in ".,"
    assert garbled != faithful[: len(garbled)]
    assert any(first == second for first, second in pairwise(garbled)), "no word said twice"
    pairs = set(pairwise(faithful))
    assert any(
        (second, first) in pairs and (first, second) not in pairs
        for first, second in pairwise(garbled)
        if first != second
    ), "no words exchanged"
    # The shortest opening of the faithful summary that has all these words ends before the cut: what is missing from
    # it was dropped.
    cut = next(end for end in range(len(faithful) + 1) if set(garbled) <= set(faithful[:end]))
    assert Counter(faithful[:cut]) - Counter(garbled), "no word dropped"


def test_garbled_gets_worse_with_its_level():
    text = " ".join(f"w{i}" for i in range(60))
    damage = []
    for level in ("light", "medium", "heavy"):
        out = build_mini.garble(text, build_mini.GARBLE_LEVELS[level], build_mini.rng_for("test", level)).split()
        intact = sum(a[0] == b[0] == "w" and int(b[1:]) - int(a[1:]) == 1 for a, b in pairwise(out))
        damage.append((1 - intact / (len(out) - 1), len(set(out))))
    assert damage[0][0] < damage[1][0] < damage[2][0]
    assert damage[0][1] > damage[1][1] > damage[2][1]
    levels = [build_mini.SCORES["garbled", level].scores for level in ("light", "medium", "heavy")]
    for mild, worse in pairwise(levels):
        assert all(x >= y for x, y in zip(mild, worse, strict=True))
        assert mild != worse


@each_article
def test_lead_is_the_opening_of_the_article(article):
    lead = OUTPUT[article.id, "lead"]
    assert article.text.startswith(lead + " ")
    assert _sentences(lead) == list(article.sentences[:2])


def test_lengths_of_the_summaries():
    assert all(20 <= _words(row["output"]) <= 85 for row in ROWS)


# The scores


def test_scores_are_halves_from_one_to_five():
    for row in ROWS:
        assert list(row["human"]) == ["coherence", "consistency", "fluency", "relevance"]
        for value in row["human"].values():
            assert 1 <= value <= 5
            assert (2 * value).is_integer()


@each_article
def test_faithful_has_the_best_scores_and_each_construction_hurts_what_it_should(article):
    assert set(HUMAN[article.id, "faithful"].values()) == {5.0}
    worst = {"shuffled": "coherence", "swapped": "consistency", "garbled": "fluency", "lead": "relevance"}
    for system, dimension in worst.items():
        scores = HUMAN[article.id, system]
        assert scores[dimension] <= 3.0
        assert scores[dimension] == min(scores.values()) or system == "garbled"
    assert HUMAN[article.id, "garbled"]["fluency"] == min(HUMAN[article.id, s]["fluency"] for s in build_mini.SYSTEMS)
    assert HUMAN[article.id, "off_topic"]["relevance"] < 3.0
    assert HUMAN[article.id, "off_topic"]["fluency"] == 5.0


def test_every_line_of_the_score_table_is_used():
    counts = build_mini.count_strengths(ARTICLES)
    assert sum(counts.values()) == 72
    assert min(counts.values()) >= 1


# What the script refuses


def _article(**changes):
    return build_mini.Article(
        **{"id": "x", "title": "t", "sentences": ("A b.",), "faithful": ("Ann beat Bo.", "He left."), **changes}
    )


def test_a_swap_that_changes_nothing_is_refused():
    with pytest.raises(ValueError, match="changes nothing"):
        build_mini.make_swapped(_article(swaps=(("Ann", "Bo"), ("Cleo", "Dan"))))


def test_a_phrase_in_two_swaps_is_refused():
    with pytest.raises(ValueError, match="more than one swap"):
        build_mini.make_swapped(_article(swaps=(("Ann", "Bo"), ("Bo", "Cleo"))))


def test_swaps_that_reach_less_than_half_are_refused():
    with pytest.raises(ValueError, match="less than half"):
        build_mini.make_swapped(_article(faithful=("Ann won.", "He left.", "It rained."), swaps=(("Ann", "Bo"),)))


@pytest.mark.parametrize(
    ("sentence", "pairs", "expected"),
    [
        ("Ann beat Bo.", [("Ann", "Bo")], "Bo beat Ann."),
        ("The other theme.", [("the", "a")], "The other theme."),
        ("It took 8 of 18,008 at 8:00.", [("8", "9")], "It took 9 of 18,008 at 8:00."),
        ("Ann Lee met Ann.", [("Ann", "Bo"), ("Ann Lee", "Cy Poe")], "Cy Poe met Bo."),
        ("Three fell.", [("Three", "four")], "Four fell."),
    ],
)
def test_swap(sentence, pairs, expected):
    assert build_mini.swap(sentence, pairs) == expected


# The data card


def test_data_card_shows_the_table_and_the_counts():
    card = (MINI / "DATA_CARD.md").read_text("utf-8")
    assert build_mini.score_table(ARTICLES) in card
    for name, lengths in {
        "article": [_words(article.text) for article in ARTICLES],
        "faithful summary": [_words(OUTPUT[article.id, "faithful"]) for article in ARTICLES],
        "any summary": [_words(row["output"]) for row in ROWS],
    }.items():
        assert f"| words of {name} | {min(lengths)} to {max(lengths)} |" in card


def test_data_card_says_that_no_human_rated_it():
    card = (MINI / "DATA_CARD.md").read_text("utf-8")
    assert "**No human rated these texts.**" in card
    assert "Apache-2.0" in card
