"""Searches against what trying everything finds."""

import itertools
from dataclasses import replace

import pytest

from judgebench.attacks.adv_suffix import TRACE, Journal, Walk, spread
from judgebench.attacks.gaps import in_place
from judgebench.attacks.search import AdvSuffix, Search
from judgebench.decoding import Expectation, Greedy
from judgebench.words.errors import UserError
from tests.attacks.conftest import EXAMPLES

WORDS = ["well", "summable", "outstandingly", "the", "Quickly", "river"]


@pytest.fixture
def walk(tmp_path, scorer, builder, gaps, smollm2_tokenizer):
    """A search with settings of `AdvSuffix` and `Walk`."""

    def walked(**settings):
        searched = {"length": 2, **settings}
        parts = {"words": WORDS, "journal": Journal(tmp_path, {"test": str(settings)})}
        parts["holds"] = lambda text, tokens: in_place(builder, gaps, text, tokens)
        parts |= {name: searched.pop(name) for name in ("words", "journal", "holds", "report") if name in searched}
        return Walk(scorer, smollm2_tokenizer, AdvSuffix(**searched), **parts).walk()

    return walked


def tokens_of(tokenizer, words):
    return tuple(tokenizer.encode("".join(f" {word}" for word in words), add_special_tokens=False))


@pytest.fixture(scope="module")
def everything(scorer, gaps, smollm2_tokenizer):
    """Every phrase of one or two words -> its mean objective."""
    phrases = [*itertools.product(WORDS, repeat=1), *itertools.product(WORDS, repeat=2)]
    values = scorer.values([tokens_of(smollm2_tokenizer, p) for p in phrases], range(len(gaps))).mean(axis=1)
    return dict(zip(phrases, values.tolist(), strict=True))


def test_greedy_takes_the_best_word_each_time(walk, scorer, gaps, everything):
    walked = walk()
    first = max(((w,) for w in WORDS), key=everything.__getitem__)
    second = max(((*first, w) for w in WORDS), key=everything.__getitem__)
    assert [phrase.words for phrase in walked.by_length] == [first, second]
    assert [phrase.score for phrase in walked.by_length] == pytest.approx([everything[first], everything[second]])
    assert walked.clean == pytest.approx(scorer.values([()], range(len(gaps))).mean())
    assert tuple(walked.trace.columns) == TRACE
    assert walked.trace.groupby("step").size().to_dict() == {"word_0": 1, "word_1": 6, "word_2": 6}
    tried = walked.trace[walked.trace.step == "word_2"].set_index("phrase").score
    assert tried.to_dict() == pytest.approx({" ".join((*first, w)): everything[(*first, w)] for w in WORDS})
    assert (walked.trace.forward_tokens[1:] > 0).all()
    assert (walked.trace.seconds[1:] > 0).all()


def test_a_beam_as_wide_as_the_vocabulary_finds_the_best_pair(walk, everything):
    walked = walk(beam=len(WORDS))
    best = max((p for p in everything if len(p) == 2), key=everything.__getitem__)
    assert walked.by_length[1].words == best
    assert walked.by_length[0].words == max((p for p in everything if len(p) == 1), key=everything.__getitem__)


def test_refinement_ends_where_no_single_word_helps(walk, everything):
    greedy = walk()
    walked = walk(refine=4)
    assert walked.refined is not None
    assert walked.refined.score >= greedy.by_length[-1].score
    neighbors = [(w, walked.refined.words[1]) for w in WORDS] + [(walked.refined.words[0], w) for w in WORDS]
    assert walked.refined.score == pytest.approx(max(everything[p] for p in neighbors))
    assert set(walked.trace.kind) == {"clean", "word", "replace"}


def test_a_killed_search_goes_on_at_its_next_word(walk, tmp_path, scorer):
    class Killed(Exception):
        pass

    def killing(text):
        if text.startswith("word 2"):
            raise Killed

    whole = walk(length=3)
    journal = Journal(tmp_path / "b", {"one": 1})
    with pytest.raises(Killed):
        walk(length=3, journal=journal, report=killing)
    before = scorer.tokens
    resumed = walk(length=3, journal=journal)
    assert resumed.resumed == 2
    assert [p.words for p in resumed.by_length] == [p.words for p in whole.by_length]
    assert [p.score for p in resumed.by_length] == [p.score for p in whole.by_length]
    spent = scorer.tokens - before
    again = walk(length=3, journal=journal)
    assert again.resumed == 4
    assert scorer.tokens - before == spent  # nothing is computed twice
    assert again.trace.equals(resumed.trace)
    longer = walk(length=4, journal=journal)
    assert longer.resumed == 4
    (tmp_path / "b" / journal.key[:16] / "word_3.parquet").write_bytes(b"PAR1 half")
    mended = walk(length=3, journal=journal)
    assert [p.words for p in mended.by_length] == [p.words for p in whole.by_length]


@pytest.mark.parametrize(
    "search",
    [
        Search(contexts=[0.25, 1.0], survivors=[0.5]),
        Search(shortlist=0.6, anchors=8),
        Search(shortlist=0.8, contexts=[0.5, 1.0], survivors=[0.6]),
    ],
)
def test_what_a_cheaper_search_keeps_was_scored_everywhere(walk, search, gaps, everything):
    walked = walk(search=search)
    for phrase in walked.by_length:
        assert phrase.score == pytest.approx(everything[phrase.words], abs=1e-6)
    first = walked.trace[walked.trace.step == "word_1"]
    kept = first[first.kept == 0]
    assert kept.contexts.item() == len(gaps)
    assert kept.score.item() == first[first.contexts == len(gaps)].score.max()
    assert first.score.notna().sum() == len(WORDS) if search.shortlist == 1 else first.score.notna().sum() < len(WORDS)
    assert first.estimate.notna().all() == (search.shortlist < 1)


def test_a_phrase_that_reads_otherwise_in_a_whole_prompt_is_passed_over(walk, everything):
    ranked = sorted(((w,) for w in WORDS), key=everything.__getitem__, reverse=True)
    walked = walk(length=1, holds=lambda text, tokens: text != ranked[0][0])
    assert walked.by_length[0].words == ranked[1]
    assert walked.trace[~walked.trace.survives.astype(bool)].word.tolist() == [ranked[0][0]]
    with pytest.raises(UserError, match="no phrase reads the same in every prompt"):
        walk(length=1, seed=1, holds=lambda text, tokens: False)


def test_phrases_that_read_alike_are_tried_once(walk):
    words = ["so", "well done", "so well", "done"]  # "so" + "well done" is "so well" + "done"
    walked = walk(words=words, beam=4)
    second = walked.trace[walked.trace.step == "word_2"]
    assert second.phrase.is_unique
    assert len(second) == len({f"{one} {other}" for one in words for other in words}) == 15
    assert second.kept.max() == 3


def test_a_journal_of_other_words_is_not_taken(walk, tmp_path):
    journal = Journal(tmp_path, {"one": 1})
    walk(length=1, journal=journal)
    walked = walk(length=1, journal=journal, words=WORDS[::-1])
    assert walked.resumed == 1  # the clean texts
    assert walked.trace.word.tolist() == ["", *WORDS[::-1]]


def test_a_vocabulary_of_which_nothing_survives(walk):
    with pytest.raises(UserError, match="none of its 1 words survives tokenization"):
        walk(words=["end\n"])


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (Search, {"shortlist": 0, "anchors": 0}, r"search\.shortlist: 0 should .*\nsearch\.anchors: 0 should "),
        (Search, {"contexts": [0.5]}, "must ascend to 1"),
        (Search, {"contexts": [1.0, 0.5], "survivors": [0.5]}, "must ascend to 1"),
        (Search, {"contexts": [0.5, 1.0]}, r"search\.survivors: it has 0 entries and search\.contexts 2"),
        (AdvSuffix, {"against": ["greedy", "greedy"]}, r"attacks: adv_suffix\.against: .* names one twice"),
        (
            AdvSuffix,
            {"contexts": 0, "systems": []},
            r"attacks: adv_suffix\.contexts: 0 should .*\nattacks: adv_suffix\.systems: \[\] should",
        ),
        (
            AdvSuffix,
            {"systems": True},
            r"attacks: adv_suffix\.systems: True should be a valid integer, or be a valid list",
        ),
        (AdvSuffix, {"search": "gradient"}, "attacks: adv_suffix.search: 'gradient' should"),
    ],
)
def test_settings_that_cannot_be(make, settings, message):
    with pytest.raises(UserError, match=message):
        make(**settings)


def test_what_a_phrase_is_learned_on_is_never_what_it_is_tried_on():
    split = {"bridge": "dev", "school": "test"}
    every = AdvSuffix(contexts=None, systems=None)
    chosen = every.examples(EXAMPLES, split, "dev")
    assert {example.group_id for example in chosen} == {"bridge"}
    assert len(replace(every, systems=1).examples(EXAMPLES, split, "dev")) == 1
    assert {e.system_id for e in replace(every, systems=["copy"]).examples(EXAMPLES, split, "dev")} == {"copy"}
    with pytest.raises(UserError, match=r"'school' is of the test split.*must not overlap"):
        AdvSuffix(contexts=["bridge", "school"]).examples(EXAMPLES, split, "dev")
    with pytest.raises(UserError, match="there is no 'station' in the data"):
        AdvSuffix(contexts=["station"]).examples(EXAMPLES, split, "dev")
    with pytest.raises(UserError, match=r"2 are wanted, and the development split has 1; raise data\.dev_share"):
        replace(every, contexts=2).examples(EXAMPLES, split, "dev")
    with pytest.raises(UserError, match=r"this data has none; set data\.dev_share"):
        AdvSuffix().examples(EXAMPLES, dict.fromkeys(split, "test"), "dev")


def test_objectives_need_probabilities_and_decodings():
    decodings = {"expectation": Expectation(), "greedy": Greedy()}
    (objective,) = AdvSuffix().objectives(decodings, "score_tokens")
    assert objective.name == "expectation"
    with pytest.raises(UserError, match=r"needs the judge's probabilities, which judge\.mode=generate does not give"):
        AdvSuffix().objectives(decodings, "generate")
    with pytest.raises(UserError, match="no decoding 'contrastive'; it has expectation, greedy"):
        AdvSuffix(against=["contrastive"]).objectives(decodings, "score_tokens")


def test_gaps_take_turns_by_group():
    for seed in range(5):
        order = spread("aabbbc", [seed])
        assert sorted(order) == list(range(6))
        assert {"aabbbc"[i] for i in order[:3]} == set("abc")
