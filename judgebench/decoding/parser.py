"""The one parser of free-text answers.

Letters of a multiple choice become their scores (`with_scores`) and numbers become tokens (`numerals`); then ever
weaker evidence is asked for the answer. The first kind that the text holds decides, and all that it finds must be one
score:

1. a *final* answer: `Final rating: 3`;
2. an *overall* one: `Overall: 3`;
3. a *marked* one: `Score: 3`, or a line with nothing but the score;
4. another *heading*: `Coherence: 3`;
5. *prose*: `I would give it a 3`, `3 - because ...`, `3 out of 5`;
6. a *lone* number at the very end: `..., 3`.

Anything else has failed, refusals and digits inside reasoning among them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from judgebench.decoding.numerals import ENDS, MARKS, OUT_OF_MAXIMUM, TOKEN, read_part, token_value, tokenize
from judgebench.types import CLAMPED, FAILED, PARSED, PLACES, PLACES_OR_TIE, TIE, Score, ScoreRange

Evidence = Callable[[str], Sequence[str]]
"""The number tokens of a text that may be its answer."""


def parse_answer(text: str, score_range: ScoreRange, choices: Mapping[str, float] | None = None) -> Score:
    """The score that a free-text answer names, within `score_range`.

    A number between two steps is kept as read (3.5 on 1-5 is 3.5, `parsed`): it says more than its rounding. One beyond
    an end is moved to that end (`clamped`). Where no number, or no single one, can be read as the answer, the score is
    the minimum (`failed`), as in the CD paper (section 4.1) and Liu et al. (2023). An answer on another scale (`7/10`
    where 1-5 was asked for) has failed too: to rescale it or to clamp it would be a guess.

    Never raises; its time is linear in the length of the text, and of more than 100,000 characters
    the last are read (`numerals.read_part`).

    On a range with labels the answer is one of them, and so is the score: letters and words alone where it is worded,
    the number counted from the other end where it is reversed.

    Args:
        choices: letter -> the score that it stands for, where the rubric defines a multiple choice.

    Example:
        >>> parse_answer("I would rate this 4 because 2 of the facts are wrong.", ScoreRange(1, 5))
        Score(value=4.0, status='parsed')
        >>> parse_answer("Two of the 3 facts are wrong.", ScoreRange(1, 5))
        Score(value=1.0, status='failed')
        >>> parse_answer("The answer is (B).", ScoreRange(1, 5), {"A": 5.0, "B": 4.0})
        Score(value=4.0, status='parsed')
        >>> parse_answer("Rating: B. Two of 3 facts are there.", ScoreRange.parse(["C", "B", "A"]))
        Score(value=2.0, status='parsed')
        >>> parse_answer("The rating is 2.", ScoreRange.parse([5, 1]))
        Score(value=4.0, status='parsed')
    """
    return _score(text, score_range, choices, (_final, _overall, _marked, _headed, _prose, _lone))


def _score(text: str, score_range: ScoreRange, choices: Mapping[str, float] | None, kinds: Sequence[Evidence]) -> Score:
    text = read_part(text)
    if score_range.worded:
        text = _with_marks(text, score_range.labels)
    elif choices:
        text = with_scores(text, choices)
    # the one number that the strongest evidence names; NaN if there is none, or several
    tokens, value = tokenize(text, score_range) or "", math.nan
    for evidence in kinds if "⟦" in tokens else ():
        values = {token_value(token) for token in evidence(tokens)}
        if evidence is _lone:  # weak enough that a number which cannot be a score is none: `..., 2013.`
            values = {number for number in values if score_range.minimum <= number <= score_range.maximum}
        if values:
            value = values.pop() if len(values) == 1 else math.nan
            break
    if math.isnan(value):
        return Score(float(score_range.minimum), FAILED)
    inside = float(min(max(value, score_range.minimum), score_range.maximum))
    return Score(score_range.mirrored(inside), PARSED if inside == value else CLAMPED)


def parse_place(text: str, choices: Mapping[str, float] | None = None, score_range: ScoreRange = PLACES) -> Score:
    """The place, 1 or 2, that a free-text answer names to the question which of two texts is better; 0 is a tie, where
    `score_range` is `PLACES_OR_TIE`.

    What `parse_answer` reads; else a line that is nothing but `Summary 1`, `Response 2` or the like, or `Tie` where
    there may be one, where all such lines name one answer. Between a place and a tie there is nothing: such a number
    has failed.

    Example:
        >>> parse_place("Summary 2."), parse_place("Summary 1 says more than Summary 2.")
        (Score(value=2.0, status='parsed'), Score(value=1.0, status='failed'))
        >>> parse_place("It is a tie.", score_range=PLACES_OR_TIE)
        Score(value=0.0, status='parsed')
    """
    read = parse_answer(text, score_range, choices)
    tied = score_range == PLACES_OR_TIE
    if tied and read.status == PARSED and read.value not in score_range.values:
        read = Score(TIE, FAILED)
    if read.status != FAILED:
        return read
    lines = read_part(text).split("\n")
    places = {float(match[1]) for line in lines if (match := _NAMED.fullmatch(line))}
    places |= {TIE for line in lines if tied and _TIED.fullmatch(line)}
    return Score(places.pop(), PARSED) if len(places) == 1 else read


def parse_final(text: str, score_range: ScoreRange, choices: Mapping[str, float] | None = None) -> Score:
    """The score that an answer ends with which was to reason first (`Final Rating: 4`), as CAP's chain of thought is.

    Only what is called final counts, else what is called an overall score or rating; or an answer that is nothing but
    the score. Numbers of the reasoning never do, so an answer that broke off in it has failed. See `parse_answer` for
    the rest.

    Example:
        >>> parse_final("Coverage assessment: 4/5. Clarity: 2. **Final Rating:** 3.5", ScoreRange(1, 5))
        Score(value=3.5, status='parsed')
        >>> parse_final("Coverage assessment: 4/5. Clarity: it is", ScoreRange(1, 5))
        Score(value=1.0, status='failed')
    """
    return _score(text, score_range, choices, (_final, _overall_score, _whole))


_SCORE = r"(?:scores?|ratings?|grades?|answer|verdict|marks?|assessment|evaluation)"
_QUALITY = (
    r"(?:coherence|consistency|fluency|relevance|relevancy|quality|coverage|clarity|informativeness|naturalness"
    r"|engagingness|groundedness|understandability|accuracy|faithfulness|factuality)"
)
_GIVE = (
    r"(?:rate[sd]?|rating|scor(?:es?|ed|ing)|giv(?:es?|en|ing)|gave|assign(?:s|ed|ing)?|award(?:s|ed|ing)?|deserves?"
    r"|earns?|receives?|gets?|merits?|warrants?|grade[sd]?|say|pick|choose|go with|lands?"
    r"|gebe|vergebe|lautet|donne|donnerais|daría|doy)"
)
_WITHHELD = (
    r"(?P<withheld>(?:\bnot|n't|\bcannot|\bnever|\bwould have|\bcould have|\bmight have|\brefuse|\bdecline|\bhesitate"
    r"|\bunable)(?: [a-z]+)? )?"
)
_GAP = r"[^\w⟦⟧.!?]"  # punctuation and space within a sentence
_LINKS = r"(?:is|of|was|be|as|at|to|an?|the|would|should|will|therefore|only|just|about)"
_LINK = rf"{_GAP}{{0,9}}(?:{_LINKS}{_GAP}{{1,9}}){{0,4}}"  # what may stand between `score` and the number
_WITHIN = r"[^.!?:;\n⟦⟧]"  # one character of a clause, no number

_FAIR = (
    r"(?= (?:would be|is|seems|feels) (?:most |quite )?"
    r"(?:appropriate|deserved|fair|fitting|justified|reasonable|right|suitable|warranted)\b)"
)

_FINAL = re.compile(
    rf"\b(?:(?:final|revised|corrected|adjusted)(?: [a-z]+){{0,2}}? {_SCORE}|settle (?:on|for))\b{_LINK}{TOKEN}{ENDS}"
)
_OVERALL = re.compile(rf"\boverall(?: [a-z]+)?(?: {_SCORE})?\b{_LINK}{TOKEN}{ENDS}")
_OVERALL_SCORE = re.compile(rf"\boverall {_SCORE}\b{_LINK}{TOKEN}{ENDS}")
_MARKED = re.compile(rf"\b{_SCORE}\b(?! scale)[^.!?:=\n⟦⟧]{{0,60}}[:=]{_LINK}{TOKEN}{ENDS}")
_BARE = re.compile(rf"[^\w⟦⟧]*{TOKEN}(?:[^\w⟦⟧]*{TOKEN})*[^\w⟦⟧]*(?:(?:stars?|points?|[分점点])[^\w⟦⟧]*)?")
_HEADED = re.compile(
    r"(?:^|[\n.;,!?(\-|{])[^\w⟦⟧]{0,6}(?P<heading>[^\W\d]+(?:[ -][^\W\d]+){0,2})[ ()]*[:=][ (\[{|-]*" + TOKEN + ENDS
)
_COUNTS = re.compile(
    r"\b(?:number|count|total|confidence|errors?|mistakes?|facts?|claims?|sentences?|issues?|problems?|words?|steps?"
    r"|reason(?:s|ing)?|explanations?|notes?|examples?|criteria|scale|range|analysis|year|page|line|details)\b"
)
_STATED = re.compile(  # one pattern, so that what is withheld in `not give it a 5` is not read again in `a 5`
    _WITHHELD
    + rf"\b(?:{_GIVE}\b{_WITHIN}{{0,80}}?"
    + rf"|(?:{_SCORE}|{_QUALITY})\b(?:{_WITHIN}{{0,60}}?\b(?:is|was|be|as|at)\b)?{_LINK}"
    + rf"|(?:an?|solid|strong|weak|it's|it is|think|hence|therefore) ){TOKEN}(?:{ENDS}|{_FAIR})"
)
_FRACTION = re.compile(rf"{OUT_OF_MAXIMUM}(?:{ENDS}|(?= (?:rating|score|summary|response|reply|text)\b))")
_PART = re.compile(rf"{TOKEN} for [a-z]")
_POINTS = re.compile(rf"{TOKEN} ?(?:分(?![钟之])|점|点(?!钟))(?![^\W\d_])")
_LEADING = re.compile(rf"[^\w⟦⟧]*{TOKEN}{ENDS}")
_NAMED = re.compile(r"\W*(?:summary|response|text)\W{1,4}([12])\W*", re.IGNORECASE)
_TIED = re.compile(
    r"\W*(?:(?:it is|it's|this is) )?(?:an? )?(?:tie|draw|tied|equal(?:ly good)?"
    r"|both(?: (?:(?:summaries|responses|texts) )?(?:are )?equal(?:ly good)?)?|neither(?: (?:one )?is better)?)\W*",
    re.IGNORECASE,
)
_LONE = re.compile(rf"(?:^|[,=→>(-]) ?{TOKEN}[^\w⟦⟧]*$")


_final, _overall, _overall_score = _FINAL.findall, _OVERALL.findall, _OVERALL_SCORE.findall


def _whole(text: str) -> Sequence[str]:
    return re.findall(TOKEN, text) if _BARE.fullmatch(text) else []


def _marked(text: str) -> Sequence[str]:
    bare = [token for line in text.split("\n") if _BARE.fullmatch(line) for token in re.findall(TOKEN, line)]
    return _MARKED.findall(text) + bare


def _headed(text: str) -> Sequence[str]:
    return [match[2] for match in _HEADED.finditer(text) if not _COUNTS.search(match["heading"])]


def _prose(text: str) -> Sequence[str]:
    stated = [match[2] for match in _STATED.finditer(text) if not match["withheld"]]
    leading = [match[1] for line in text.split("\n") if (match := _LEADING.match(line))]
    parts = _PART.findall(text)  # `4 for structure, 2 for flow` is no single score
    return stated + leading + _FRACTION.findall(text) + _POINTS.findall(text) + (parts if len(parts) > 1 else [])


def _lone(text: str) -> Sequence[str]:
    alone = len(set(re.findall(TOKEN, text))) == 1
    return _LONE.findall(text) if alone else []


_MARKUP = re.compile(r"[*_`\"“”„«»#$]")
_CHOICE = re.compile(r"\b(?:option|choice|letter)\b", re.IGNORECASE)
_ANSWERS = r"(?= ?(?:$|[.,;:!?(){}\[\]|→\n<]|-(?!\w)|(?:because|since|as|or|and|to)\b))"
"""Lookahead: what may follow a letter that answers. `A good summary`, `B+` and `Option A is too generous` name none."""
_APART = r"(?<![\w.&/+-])(?<![^\W\d]['’])"
_ENDING = r"(?![\w+-]|['’]\w)"
_LETTER = re.compile(rf"{_APART}(?P<letter>[A-Z]){_ENDING}(?=['’]?{_ANSWERS})")
_SMALL = re.compile(
    r"(?P<before>\A\W*|\banswer(?: is)?\W{1,4}|[(\[])(?P<letter>[a-z])(?=[)\]]|[\s.,;:!?'(){}\[\]]*\Z)", re.I
)
_SMALL_LAST = re.compile(r"(?<=[:=])\s*[a-z](?=[\s.,;)\]]*$)", re.MULTILINE)  # `Rating: b`


def with_scores(text: str, choices: Mapping[str, float]) -> str:
    """An answer with the score in the place of each letter that answers; where the choices are listed again, that goes.

    Example:
        >>> with_scores("A good text. Option B.", {"A": 5.0, "B": 4.0})
        'A good text. answer 4.0.'
    """
    text = _MARKUP.sub(" ", text)
    # the choices may be listed again: a letter with its own score next to it, or at the end of the line that it begins
    patterns = []
    for letter, score in choices.items():
        written = f"{score:z.6f}".rstrip("0").rstrip(".")
        number = re.escape(written) + ("0*" if "." in written else r"(?:\.0+)?")
        next_to = rf"(?<!\w){letter}\W{{1,4}}{number}(?![\w/]|[.,]\d)[)\]]?"
        ending = rf"^[^\w\n]{{0,8}}{letter}[)\].:][^\n\d]*\W{number}(?: points?)?[^\w\n]*$"
        patterns.append(re.compile(f"{next_to}|{ending}", re.MULTILINE))
    if sum(pattern.search(text) is not None for pattern in patterns) > 1:
        for pattern in patterns:
            text = pattern.sub("\n", text)
    return _with_letters(text, {letter: repr(score) for letter, score in choices.items()})


def _with_letters(text: str, written: Mapping[str, str]) -> str:
    """A text with what is `written` for each letter in the place of those that answer."""

    def letter(match: re.Match[str]) -> str:
        instead = written.get(match["letter"].upper())
        return match[0] if instead is None else f"{match.groupdict().get('before', '')}{instead}"

    return _SMALL.sub(letter, _LETTER.sub(letter, _CHOICE.sub("answer", text)))


def _with_marks(text: str, labels: Sequence[str]) -> str:
    """An answer with one of `MARKS` in the place of each label that may answer, a longer one before a shorter."""
    marks = {label.casefold(): chr(mark) for label, mark in zip(labels, MARKS, strict=False)}
    text = _MARKUP.sub(" ", text.translate(dict.fromkeys(MARKS)))
    text = _SMALL_LAST.sub(lambda match: match[0].upper(), text)
    if words := sorted((label for label in marks if len(label) > 1), key=len, reverse=True):
        either = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in words)
        pattern = re.compile(rf"{_APART}(?:{either}){_ENDING}", re.IGNORECASE)
        text = pattern.sub(lambda match: marks.get(" ".join(match[0].casefold().split()), match[0]), text)
    return _with_letters(text, {label.upper(): mark for label, mark in marks.items() if len(label) == 1})
