"""The one parser of free-text answers.

Letters of a multiple choice become their scores (`with_scores`) and numbers become tokens
(`tokenize`); then ever weaker evidence is asked for the answer. The first kind that the text holds
decides, and all that it finds must be one score:

1. a *final* answer: `Final rating: 3`;
2. an *overall* one: `Overall: 3`;
3. a *marked* one: `Score: 3`, or a line with nothing but the score;
4. another *heading*: `Coherence: 3`;
5. *prose*: `I would give it a 3`, `3 - because ...`, `3 out of 5`;
6. a *lone* number at the very end: `..., 3`.

Anything else has failed, refusals and digits inside reasoning among them.

A number's token is `⟦4.0⟧`, so that what surrounds it can be matched without reading digits again.
Where the scores are letters or words, these are the tokens and numbers are not. `tokenize` takes
four steps:

1. *Clean*: markup and odd characters go, as reasoning in think tags has before
  (`thoughts.answer_in`).
2. *Numbers*: digits, decimal commas, minus signs, and number words where a score can stand become
   tokens. What cannot be a score does not: `4th`, `GPT-4`, `80%`, the numbers of a list, `Summary
   2`.
3. *Echoes* of the scale vanish: `(1-5)`, `between 1 and 5`, `5-point scale`, `out of 5` in a
  heading.
4. *Fractions* of the maximum become a marked numerator, `4/5` -> `⟦4.0/⟧`; what names no single
   score on this scale becomes `⟦nan⟧`: `7/10` on 1-5, `3 or 4`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from judgebench.decoding.thoughts import answer_in
from judgebench.types import CLAMPED, FAILED, PARSED, PLACES, PLACES_OR_TIE, TIE, Score, ScoreRange
from judgebench.words.terminal import print_safely

TOKEN = r"⟦([^⟦⟧]{1,40})⟧"
"""One number; its group is what `token_value` takes."""

OUT_OF_MAXIMUM = r"⟦([^⟦⟧]{1,40}/)⟧"
"""One number that was given as a fraction of the maximum."""

_MAY_FOLLOW = (
    r"stars?|points?|sternen?|punkten?|out of|because|since|as|for|on|in|due|given|and|but|overall|though|although"
    r"|while|based|with|to|or|from|at|than|which|indicating|meaning|reflecting|is|à|pour|für|por|para"
)
ENDS = rf"(?=\s*(?:$|[.,;:!?()\[\]{{}}\n|→]|-(?![a-z])|[分점点]|(?:{_MAY_FOLLOW})\b))"
"""Lookahead: what may follow a number that answers. A noun may not: `2 facts`, `3 of the
claims`."""


def token_value(token: str) -> float:
    """The number in a token; NaN for what names no single score on the scale."""
    return float(token.rstrip("/"))


MARKS = range(0xE000, 0xE000 + 26)
"""Characters that stand for the labels of a range in a text for `tokenize`, worst first; no answer
has them."""


def tokenize(text: str, score_range: ScoreRange) -> str | None:
    """`text` in lower case with its numbers, or where the range is worded its `MARKS`, as tokens;
    None if it says that it judges on another scale."""
    text = _clean(text)
    if score_range.worded:
        text = text.translate(
            {mark: _token(score) for mark, score in zip(MARKS, score_range.values, strict=False)}
        )
    else:
        text = _number_tokens(text, score_range)
    text = _without_echoes(text, score_range)
    return None if _OTHER_SCALE.search(text) else _collapsed(text, score_range)


def _token(value: float) -> str:
    return f"⟦{value!r}⟧"


# 1. Clean

_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−﹣－", "-"),
        **dict.fromkeys("’‘ʼ", "'"),
        **dict.fromkeys('"“”„«»*`#_$', " "),
        # variation selectors, keycaps, zero widths
        **dict.fromkeys("\ufe0f\u20e3\u200b\u200c\u200d\ufeff⟦⟧☆", ""),
        **dict.fromkeys("\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n"),
        **{"：": ":", "／": "/", "，": ",", "．": ".", "。": ".", "（": "(", "）": ")", "½": ".5"},
    }
)

_Match = re.Match[str]

_REWRITTEN: Sequence[tuple[str, str | Callable[[_Match], str]]] = (
    (r"<\|[^|>\n]{1,40}\|>", "\n"),
    (r"</[a-z]{1,40} ?>", "\n"),
    (r"<([a-z]{1,40}(?: [a-z]{1,40})?) ?/?>", r" \1: "),
    (
        r"\\[dt]?frac ?\{ ?(\d{1,9}(?:\.\d{1,9})?) ?\} ?\{ ?(\d{1,9}(?:\.\d{1,9})?) ?\}",
        r" \1/\2 ",
    ),
    (r"\\(?:text|math)(?:bf|it|rm|sf|tt)?(?![a-z])", " "),
    (r"\\boxed\b|\[result\]", " final answer: "),
    (r"(?<![a-z])'|'(?![a-z])", " "),
    (r"(?<=\d)\s*[★⭐🌟]+", " stars"),
    (r"[★⭐🌟]+", lambda stars: f" {len(stars[0])} stars "),
    (r"(?<=\d) 1/2(?![\d/.,])", ".5"),
    # check marks, thumbs and the like, which say nothing and may stand next to a number
    ("[\U0001f000-\U0001faff\u2600-\u27bf]+", " "),
    # long rules of dashes and the like would only cost time
    (r"([^\w\s])\1{3,}", r"\1\1\1"),
)
"""Patterns, and what stands for them afterwards, in this order."""


LONGEST = 100_000
"""Characters of an answer that are read, about 25,000 tokens: more than judges are given to write.
Of a longer answer the last are read, where the verdict stands, and not its reasoning in think
tags."""


def read_part(text: str) -> str:
    """The part of an answer that is read: all, or of more than `LONGEST` characters the last of
    them.

    Example:
        >>> len(read_part("Score: 5. " + "Because. " * 20_000 + "Score: 4"))
        100001
    """
    if len(text) <= LONGEST:
        return text
    answer = answer_in(text)
    # a letter before what was cut: half of a number is not a number, and the middle of a line is
    # not its beginning
    return answer if len(answer) <= LONGEST else f"x{answer[-LONGEST:]}"


def warn_of_cut(texts: Iterable[str]) -> None:
    """Says on stderr of how many answers only a part is read."""
    count = sum(len(text) > LONGEST and len(read_part(text)) > LONGEST for text in texts)
    if count:
        print_safely(
            f"judgebench: {count:,} answer{'s are' if count > 1 else ' is'} longer than "
            f"{LONGEST:,} characters; only the last {LONGEST:,} are searched for the score, and "
            "the text itself is stored whole.",
            error=True,
        )


def _clean(text: str) -> str:
    text = text.translate(_CHARACTERS).lower()
    for pattern, instead in _REWRITTEN:
        text = re.sub(pattern, instead, text)
    # a pattern that begins with spaces takes quadratic time
    lines = (line.strip() for line in text.split("\n"))
    return re.sub(r"[^\S\n]+", " ", "\n".join(line for line in lines if line))


# 2. Numbers

_NUMBER = re.compile(
    r"(?<![a-z\d])(?<![a-z]-)(?<!\d[.,:])"
    r"(?P<sign>-)?(?P<digits>\d{1,3}(?:,\d{3})+|\d+(?:[.,]\d+)?|\.\d+)(?P<half> and a half\b)?"
    r"(?![a-z\d]|[.,:]\d| ?%)"
)
_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_WORD = re.compile(
    r"(?<![\w-])(?<!this )(?<!that )(?<!the )(?<!no )(?<!any )(?<!each )(?<!every )"
    rf"(?P<word>{'|'.join(_WORDS)})(?P<half> and a half\b)?(?!-[a-z])(?:{ENDS}|(?= ?/))"
)
_REFERENCE = re.compile(
    r"(?<!this )(?<!the )(?<!that )(?<!your )(?<!above )(?<!given )"
    r"\b(?:summary|response|reply|reference|sentences?|paragraph|step|criterion|article) ?\d{1,3}\b(?![.,/]\d)"
)
_LIST_NUMBER = re.compile(r"(?<!\S)(\d{1,2})[.)](?=\s+[^\W\d])")


def _number_tokens(text: str, score_range: ScoreRange) -> str:
    if score_range.maximum == 100:
        text = re.sub(r"(?<=\d) ?%", "", text)
    # the `1.`, `2.`, ... of a list, which must count up from 1 to at least 2
    numbers = [int(match[1]) for match in _LIST_NUMBER.finditer(text)]
    counted = list(range(1, len(numbers) + 1))
    if len(numbers) > 1 and numbers == counted:
        text = _LIST_NUMBER.sub("", text)
    text = _REFERENCE.sub(" ", text)

    def half(match: _Match) -> float:
        return 0.5 if match["half"] else 0.0

    def digits(match: _Match) -> str:
        written = match["digits"]
        comma = "."
        if written.count(",") > 1 or (written[-4:-3] == "," and score_range.maximum >= 1000):
            comma = ""
        value = float(written.replace(",", comma)) + half(match)
        if not match["sign"]:
            return _token(value)
        # A dash after a word is a sign only where scores can be negative: `Coherence -3`.
        before = text[max(0, match.start() - 2) : match.start()].rstrip(" ")
        if score_range.minimum < 0 or before[-1:] in ("", "\n", ":", "=", "(", "["):
            return _token(-value)
        return "-" + _token(value)

    def word(match: _Match) -> str:
        return _token(_WORDS.index(match["word"]) + half(match))

    return _WORD.sub(word, _NUMBER.sub(digits, text))


# 3. Echoes of the scale

_ASIDE = r"(?: ?\([^()⟦⟧]{0,40}\))?"  # 1 (worst) to 5 (best)
_SPAN = re.compile(
    r"(?:\b(?:(?:on|using) (?:a|the) scale (?:of |from )?|auf einer skala (?:von )?))?(?P<between>\bbetween )?"
    rf"{TOKEN}{_ASIDE} ?(?P<by>-|to|through|bis|and|~|\.\.\.?) ?{TOKEN}{_ASIDE}"
)
_INTERVAL = re.compile(rf"[\[(] ?{TOKEN} ?, ?{TOKEN} ?[\])]")
_BOUNDS = re.compile(rf"{TOKEN} ?(?:<=?|≤) ?[a-z]{{1,20}} ?(?:<=?|≤) ?{TOKEN}")
_ALL = re.compile(rf"{TOKEN}(?:,? ?(?:or |and )?{TOKEN}){{2,20}}")
"""Several numbers in a row, which may be all that can be given."""
_OF_MAXIMUM = re.compile(
    r"(?<!⟧)(?<!⟧ )\b(?:out of|scale of|(?:maximum|highest)(?: possible)?(?: score| rating)?(?: of| is|:))(?: a| the)? "
    + TOKEN
)
_NAMED_END = re.compile(
    rf"\b(?:max|min)(?:imum)?(?: (?:possible )?(?:scores?|ratings?|points?))?[ ,:=]{{1,4}}{TOKEN}"
)
_POINT_SCALE = re.compile(rf"{TOKEN}[ -]points? (?:likert )?scale")
_MEANS = r"(?: (?:is|being|as|means|meaning|indicates|indicating|represents|representing)\b| ?=)"
_END = r"(?: (?:the )?(?:highest|best|lowest|worst|maximum|minimum)\b)"
_EXPLAINED = [
    re.compile(
        rf"\b(?:where|with) {TOKEN}{_MEANS}(?:[^.;\n⟦⟧]{{0,60}}{TOKEN}(?:{_MEANS}|{_END}))?"
    ),
    re.compile(rf"(?<=\() ?{TOKEN}{_MEANS}[^.;\n⟦⟧]{{0,60}}{TOKEN}(?:{_MEANS}|{_END})"),
]
_OTHER_SCALE = re.compile(rf"\bscale (?:of |from )?(?:between )?{TOKEN} ?(?:-|to|and) ?{TOKEN}")


def _without_echoes(text: str, score_range: ScoreRange) -> str:
    low, high = score_range.minimum, score_range.maximum
    scales = [[low, high]]
    values = list(score_range.values)
    lists = [values]
    if score_range.labels:
        scales.append([high, low])
        lists.append(values[::-1])

    # the patterns of each kind of echo, and when their numbers are one
    text = _without(text, (_ALL,), lambda numbers, said: len(numbers) > 2 and numbers in lists)
    text = _without(
        text,
        (_BOUNDS, _SPAN, _INTERVAL),
        lambda numbers, said: (
            numbers in scales and (said.get("by") != "and" or said["between"] is not None)
        ),
    )
    text = _without(
        text, (*_EXPLAINED, _NAMED_END), lambda numbers, said: {*numbers} <= {low, high}
    )
    return _without(text, (_POINT_SCALE, _OF_MAXIMUM), lambda numbers, said: numbers == [high])


def _without(
    text: str,
    patterns: Iterable[re.Pattern[str]],
    is_echo: Callable[[list[float], Mapping[str, str | None]], bool],
) -> str:
    """A text with a blank for each match whose numbers, and named groups, make an echo."""

    def instead(match: _Match) -> str:
        numbers = [token_value(token) for token in re.findall(TOKEN, match[0])]
        return " " if is_echo(numbers, match.groupdict()) else match[0]

    for pattern in patterns:
        text = pattern.sub(instead, text)
    return text


# 4. Fractions and alternatives

_MIXED_FRACTION = re.compile(
    rf"{TOKEN} ?(?:(?:stars?|points?) )?"
    r"(?P<of>/|out of(?: the| a(?: possible| maximum(?: of)?| total of)?)?|of(?: the)?|von|sur|sobre|de|su|из) ?"
    + TOKEN
)
_MAYBE = r"(?: (?:maybe|perhaps|possibly|even))?"
_ALTERNATIVES = re.compile(
    rf"(?:\bbetween )?{TOKEN}(?:(?: ?(?:,? ?or{_MAYBE}|,{_MAYBE}|-|to|and|~|/) ?| ){TOKEN}){{1,20}}{ENDS}"
)


def _collapsed(text: str, score_range: ScoreRange) -> str:
    def fraction(match: _Match) -> str:
        if token_value(match[3]) == score_range.maximum:
            return f"⟦{match[1]}/⟧"
        if match["of"].startswith(("/", "out")):
            return _token(math.nan)
        return match[0]

    def alternatives(match: _Match) -> str:
        tokens = re.findall(TOKEN, match[0])
        numbers = {token_value(token) for token in tokens}
        if len(numbers) == 1:
            return f"⟦{tokens[0]}⟧"
        if " and " in match[0] and not match[0].startswith("between"):
            return match[0]  # two numbers side by side, not one vague one
        return _token(math.nan)

    if not score_range.worded:  # `B/A` is no part of A
        text = _MIXED_FRACTION.sub(fraction, text)
    return _ALTERNATIVES.sub(alternatives, text)


# --- answers ------------------------------------------------------------------------------------


Evidence = Callable[[str], Sequence[str]]
"""The number tokens of a text that may be its answer."""


def parse_answer(
    text: str, score_range: ScoreRange, choices: Mapping[str, float] | None = None
) -> Score:
    """The score that a free-text answer names, within `score_range`.

    A number between two steps is kept as read (3.5 on 1-5 is 3.5, `parsed`): it says more than its
    rounding. One beyond an end is moved to that end (`clamped`). Where no number, or no single one,
    can be read as the answer, the score is the minimum (`failed`), as in the CD paper (section 4.1)
    and Liu et al. (2023). An answer on another scale (`7/10` where 1-5 was asked for) has failed
    too: to rescale it or to clamp it would be a guess.

    Never raises; its time is linear in the length of the text, and of more than 100,000 characters
    the last are read (`read_part`).

    On a range with labels the answer is one of them, and so is the score: letters and words alone
    where it is worded, the number counted from the other end where it is reversed.

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


def _answer_in(text: str) -> str:
    """The part of a text that is read, without thoughts."""
    return answer_in(read_part(text))


def _score(
    text: str,
    score_range: ScoreRange,
    choices: Mapping[str, float] | None,
    kinds: Sequence[Evidence],
) -> Score:
    text = _answer_in(text)
    if score_range.worded:
        text = _with_marks(text, score_range.labels)
    elif choices:
        text = with_scores(text, choices)
    # the one number that the strongest evidence names; NaN if there is none, or several
    tokens = tokenize(text, score_range) or ""
    value = math.nan
    for evidence in kinds if "⟦" in tokens else ():
        values = {token_value(token) for token in evidence(tokens)}
        # weak enough that a number which cannot be a score is none: `..., 2013.`
        if evidence is _lone:
            values = {
                number for number in values if score_range.minimum <= number <= score_range.maximum
            }
        if values:
            value = values.pop() if len(values) == 1 else math.nan
            break
    if math.isnan(value):
        return Score(float(score_range.minimum), FAILED)
    inside = float(min(max(value, score_range.minimum), score_range.maximum))
    return Score(score_range.mirrored(inside), PARSED if inside == value else CLAMPED)


def parse_place(
    text: str, choices: Mapping[str, float] | None = None, score_range: ScoreRange = PLACES
) -> Score:
    """The place, 1 or 2, that a free-text answer names to the question which of two texts is
    better; 0 is a tie, where `score_range` is `PLACES_OR_TIE`.

    What `parse_answer` reads; else a line that is nothing but `Summary 1`, `Response 2` or the
    like, or `Tie` where there may be one, where all such lines name one answer. Between a place and
    a tie there is nothing: such a number has failed.

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
    places = set()
    for line in _answer_in(text).split("\n"):
        named = _NAMED.fullmatch(line)
        if named:
            places.add(float(named[1]))
        elif tied and _TIED.fullmatch(line):
            places.add(TIE)
    return Score(places.pop(), PARSED) if len(places) == 1 else read


def parse_final(
    text: str, score_range: ScoreRange, choices: Mapping[str, float] | None = None
) -> Score:
    """The score that an answer ends with which was to reason first (`Final Rating: 4`), as CAP's
    chain of thought is.

    Only what is called final counts, else what is called an overall score or rating; or an answer
    that is nothing but the score. Numbers of the reasoning never do, so an answer that broke off in
    it has failed. See `parse_answer` for the rest.

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
    r"|\bunable)(?: in good conscience| able to| think(?: [a-z]+){1,2}| [a-z]+)? )?"
)
_TURN = re.compile(r"[,;]| (?:so|but|because|hence|thus|therefore) ")
"""What ends a clause that withholds a score: `I cannot give full marks, so 4/5`."""
_GAP = r"[^\w⟦⟧.!?]"  # punctuation and space within a sentence
_LINKS = r"(?:is|of|was|be|as|at|to|an?|the|would|should|will|therefore|only|just|about)"
# what may stand between `score` and the number
_LINK = rf"{_GAP}{{0,9}}(?:{_LINKS}{_GAP}{{1,9}}){{0,4}}"
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
_BARE = re.compile(
    rf"[^\w⟦⟧]*{TOKEN}(?:[^\w⟦⟧]*{TOKEN})*[^\w⟦⟧]*(?:(?:stars?|points?|[分점点])[^\w⟦⟧]*)?"
)
_HEADED = re.compile(
    r"(?:^|[\n.;,!?(\-|{])[^\w⟦⟧]{0,6}(?P<heading>[^\W\d]+(?:[ -][^\W\d]+){0,2})[ ()]*[:=][ (\[{|-]*"
    + TOKEN
    + ENDS
)
_COUNTS = re.compile(
    r"\b(?:number|count|total|confidence|errors?|mistakes?|facts?|claims?|sentences?|issues?|problems?|words?|steps?"
    r"|reason(?:s|ing)?|explanations?|notes?|examples?|criteria|scale|range|analysis|year|page|line|details)\b"
)
# one pattern, so that what is withheld in `not give it a 5` is not read again in `a 5`
_STATED = re.compile(
    _WITHHELD
    + rf"\b(?:{_GIVE}\b{_WITHIN}{{0,80}}?"
    + rf"|(?:{_SCORE}|{_QUALITY})\b(?:{_WITHIN}{{0,60}}?\b(?:is|was|be|as|at)\b)?{_LINK}"
    + rf"|(?:an?|solid|strong|weak|it's|it is|think|hence|therefore) ){TOKEN}(?:{ENDS}|{_FAIR})"
)
_FRACTION = re.compile(
    rf"{OUT_OF_MAXIMUM}(?:{ENDS}|(?= (?:rating|score|summary|response|reply|text)\b))"
)
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


_final = _FINAL.findall
_overall = _OVERALL.findall
_overall_score = _OVERALL_SCORE.findall


def _whole(text: str) -> Sequence[str]:
    return re.findall(TOKEN, text) if _BARE.fullmatch(text) else []


def _marked(text: str) -> Sequence[str]:
    bare = [
        token
        for line in text.split("\n")
        if _BARE.fullmatch(line)
        for token in re.findall(TOKEN, line)
    ]
    return _MARKED.findall(text) + bare


def _headed(text: str) -> Sequence[str]:
    return [match[2] for match in _HEADED.finditer(text) if not _COUNTS.search(match["heading"])]


def _prose(text: str) -> Sequence[str]:
    stated = []
    withheld = set[int]()
    for match in _STATED.finditer(text):
        if not match["withheld"]:
            stated.append(match[2])
        elif not _TURN.search(match[0]):
            withheld.add(match.start(2))
    fractions = [match[1] for match in _FRACTION.finditer(text) if match.start(1) not in withheld]
    leading = [first[1] for line in text.split("\n") if (first := _LEADING.match(line))]
    parts = _PART.findall(text)  # `4 for structure, 2 for flow` is no single score
    return stated + leading + fractions + _POINTS.findall(text) + (parts if len(parts) > 1 else [])


def _lone(text: str) -> Sequence[str]:
    alone = len(set(re.findall(TOKEN, text))) == 1
    return _LONE.findall(text) if alone else []


_MARKUP = re.compile(r"[*_`\"“”„«»#$]")
_CHOICE = re.compile(r"\b(?:option|choice|letter)\b", re.IGNORECASE)
_ANSWERS = r"(?= ?(?:$|[.,;:!?(){}\[\]|→\n<]|-(?!\w)|(?:because|since|as|or|and|to)\b))"
"""Lookahead: what may follow a letter that answers. `A good summary`, `B+` and `Option A is too
generous` name none."""
_APART = r"(?<![\w.&/+-])(?<![^\W\d]['’])"
_ENDING = r"(?![\w+-]|['’]\w)"
_LETTER = re.compile(rf"{_APART}(?P<letter>[A-Z]){_ENDING}(?=['’]?{_ANSWERS})")
_SMALL = re.compile(
    r"(?P<before>\A\W*|\banswer(?: is)?\W{1,4}|[(\[])(?P<letter>[a-z])(?=[)\]]|[\s.,;:!?'(){}\[\]]*\Z)",
    re.I,
)
_SMALL_LAST = re.compile(r"(?<=[:=])\s*[a-z](?=[\s.,;)\]]*$)", re.MULTILINE)  # `Rating: b`


def with_scores(text: str, choices: Mapping[str, float]) -> str:
    """An answer with the score in the place of each letter that answers; where the choices are
    listed again, that goes.

    Example:
        >>> with_scores("A good text. Option B.", {"A": 5.0, "B": 4.0})
        'A good text. answer 4.0.'
    """
    text = _MARKUP.sub(" ", text)
    # the choices may be listed again: a letter with its own score next to it, or at the end of the
    # line that it begins
    patterns = []
    for letter, score in choices.items():
        written = f"{score:z.6f}".rstrip("0").rstrip(".")
        zeros = "0*" if "." in written else r"(?:\.0+)?"
        number = re.escape(written) + zeros
        next_to = rf"(?<!\w){letter}\W{{1,4}}{number}(?![\w/]|[.,]\d)[)\]]?"
        ending = rf"^[^\w\n]{{0,8}}{letter}[)\].:][^\n\d]*\W{number}(?: points?)?[^\w\n]*$"
        patterns.append(re.compile(f"{next_to}|{ending}", re.MULTILINE))
    listed = [pattern for pattern in patterns if pattern.search(text)]
    if len(listed) > 1:
        for pattern in patterns:
            text = pattern.sub("\n", text)
    return _with_letters(text, {letter: repr(score) for letter, score in choices.items()})


def _with_letters(text: str, written: Mapping[str, str]) -> str:
    """A text with what is `written` for each letter in the place of those that answer."""

    def letter(match: _Match) -> str:
        instead = written.get(match["letter"].upper())
        if instead is None:
            return match[0]
        return match.groupdict().get("before", "") + instead

    text = _CHOICE.sub("answer", text)
    text = _LETTER.sub(letter, text)
    return _SMALL.sub(letter, text)


def _with_marks(text: str, labels: Sequence[str]) -> str:
    """An answer with one of `MARKS` in the place of each label that may answer, a longer one before
    a shorter."""
    marks = {label.casefold(): chr(mark) for label, mark in zip(labels, MARKS, strict=False)}
    letters = {label.upper(): mark for label, mark in marks.items() if len(label) == 1}
    words = [label for label in marks if len(label) > 1]

    def mark_of(match: _Match) -> str:
        label = " ".join(match[0].casefold().split())
        return marks.get(label, match[0])

    text = text.translate(dict.fromkeys(MARKS))
    text = _MARKUP.sub(" ", text)
    text = _SMALL_LAST.sub(lambda match: match[0].upper(), text)
    if words:
        words.sort(key=len, reverse=True)
        patterns = [re.escape(word).replace(r"\ ", r"\s+") for word in words]
        either = "|".join(patterns)
        pattern = re.compile(rf"{_APART}(?:{either}){_ENDING}", re.IGNORECASE)
        text = pattern.sub(mark_of, text)
    return _with_letters(text, letters)
