"""The numbers of an answer as tokens, `⟦4.0⟧`, so that what surrounds them can be matched without reading digits again.
Where the scores are letters or words, these are the tokens and numbers are not.

Steps, in this order:

1. *Clean*: reasoning in think tags, markup and odd characters go.
2. *Numbers*: digits, decimal commas, minus signs, and number words where a score can stand become tokens. What cannot
   be a score does not: `4th`, `GPT-4`, `80%`, the numbers of a list, `Summary 2`.
3. *Echoes* of the scale vanish: `(1-5)`, `between 1 and 5`, `5-point scale`, `out of 5` in a heading.
4. *Fractions* of the maximum become a marked numerator, `4/5` -> `⟦4.0/⟧`; what names no single score on this scale
   becomes `⟦nan⟧`: `7/10` on 1-5, `3 or 4`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable

from judgebench.types import ScoreRange

TOKEN = r"⟦([^⟦⟧]{1,40})⟧"
"""One number; its group is what `token_value` takes."""

OUT_OF_MAXIMUM = r"⟦([^⟦⟧]{1,40}/)⟧"
"""One number that was given as a fraction of the maximum."""

_MAY_FOLLOW = (
    r"stars?|points?|sternen?|punkten?|out of|because|since|as|for|on|in|due|given|and|but|overall|though|although"
    r"|while|based|with|to|or|from|at|than|which|indicating|meaning|reflecting|is|à|pour|für|por|para"
)
ENDS = rf"(?=\s*(?:$|[.,;:!?()\[\]{{}}\n|→]|-(?![a-z])|[分점点]|(?:{_MAY_FOLLOW})\b))"
"""Lookahead: what may follow a number that answers. A noun may not: `2 facts`, `3 of the claims`."""


def token_value(token: str) -> float:
    """The number in a token; NaN for what names no single score on the scale."""
    return float(token.rstrip("/"))


MARKS = range(0xE000, 0xE000 + 26)
"""Characters that stand for the labels of a range in a text for `tokenize`, worst first; no answer has them."""


def tokenize(text: str, score_range: ScoreRange) -> str | None:
    """`text` in lower case with its numbers, or where the range is worded its `MARKS`, as tokens; None if it says that
    it judges on another scale."""
    text = _clean(text)
    if score_range.worded:
        text = text.translate({mark: _token(score) for mark, score in zip(MARKS, score_range.values, strict=False)})
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
        **dict.fromkeys("\ufe0f\u20e3\u200b\u200c\u200d\ufeff⟦⟧☆", ""),  # variation selectors, keycaps, zero widths
        **dict.fromkeys("\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\n"),
        **{"：": ":", "／": "/", "，": ",", "．": ".", "。": ".", "（": "(", "）": ")", "½": ".5"},
    }
)

_FRACTION_IN_LATEX = re.compile(r"\\[dt]?frac ?\{ ?(\d{1,9}(?:\.\d{1,9})?) ?\} ?\{ ?(\d{1,9}(?:\.\d{1,9})?) ?\}")
_PICTURES = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf]+")
"""Check marks, thumbs and the like, which say nothing and may stand next to a number."""


LONGEST = 100_000
"""Characters of an answer that are read, about 25,000 tokens: more than judges are given to write. Of a longer answer
the last are read, where the verdict stands, and not its reasoning in think tags."""

_THINK, _END_OF_THINK = (re.compile(rf"<{tag}>|◁{tag}▷|\[{tag}\]", re.IGNORECASE) for tag in ("think", "/think"))


def read_part(text: str) -> str:
    """The part of an answer that is read: all, or of more than `LONGEST` characters the last of them.

    Example:
        >>> len(read_part("Score: 5. " + "Because. " * 20_000 + "Score: 4"))
        100001
    """
    if len(text) <= LONGEST:
        return text
    answer = _without_reasoning(text)
    # a letter before what was cut: half of a number is not a number, and the middle of a line is not its beginning
    return answer if len(answer) <= LONGEST else f"x{answer[-LONGEST:]}"


def warn_of_cut(texts: Iterable[str]) -> None:
    """Says on stderr of how many answers only a part is read."""
    count = sum(len(text) > LONGEST and len(read_part(text)) > LONGEST for text in texts)
    if count:
        print(
            f"judgebench: {count:,} answer{'s are' if count > 1 else ' is'} longer than {LONGEST:,} characters; only "
            f"the last {LONGEST:,} are searched for the score, and the text itself is stored whole.",
            file=sys.stderr,
        )


def _without_reasoning(text: str) -> str:
    """The text after the last think tag's end; where a tag has none, the text before it: the answer broke off."""
    ends = [tag.end() for tag in _END_OF_THINK.finditer(text)]
    return _THINK.split(text[ends[-1] if ends else 0 :], maxsplit=1)[0]


def _clean(text: str) -> str:
    text = _without_reasoning(text.translate(_CHARACTERS).lower())
    text = re.sub(r"<\|[^|>\n]{1,40}\|>", "\n", text)
    text = re.sub(r"</[a-z]{1,40} ?>", "\n", text)
    text = re.sub(r"<([a-z]{1,40}(?: [a-z]{1,40})?) ?/?>", r" \1: ", text)
    text = _FRACTION_IN_LATEX.sub(r" \1/\2 ", text)
    text = re.sub(r"\\(?:text|math)(?:bf|it|rm|sf|tt)?(?![a-z])", " ", text)
    text = re.sub(r"\\boxed\b|\[result\]", " final answer: ", text)
    text = re.sub(r"(?<![a-z])'|'(?![a-z])", " ", text)
    text = re.sub(r"(?<=\d)\s*[★⭐🌟]+", " stars", text)
    text = re.sub(r"[★⭐🌟]+", lambda stars: f" {len(stars[0])} stars ", text)
    text = re.sub(r"(?<=\d) 1/2(?![\d/.,])", ".5", text)
    text = _PICTURES.sub(" ", text)
    text = re.sub(r"([^\w\s])\1{3,}", r"\1\1\1", text)  # long rules of dashes and the like would only cost time
    lines = (line.strip() for line in text.split("\n"))  # a pattern that begins with spaces takes quadratic time
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
    if len(numbers) > 1 and numbers == list(range(1, len(numbers) + 1)):
        text = _LIST_NUMBER.sub("", text)
    text = _REFERENCE.sub(" ", text)

    def digits(match: re.Match[str]) -> str:
        # A dash after a word is a sign only where scores can be negative: `Coherence -3`.
        before = text[max(0, match.start() - 2) : match.start()].rstrip(" ")[-1:]
        negative = match["sign"] and (score_range.minimum < 0 or before in ("", "\n", ":", "=", "(", "["))
        written = match["digits"]
        thousands = written.count(",") > 1 or (written[-4:-3] == "," and score_range.maximum >= 1000)
        value = float(written.replace(",", "" if thousands else ".")) + (0.5 if match["half"] else 0.0)
        return _token(-value) if negative else (match["sign"] or "") + _token(value)

    def word(match: re.Match[str]) -> str:
        return _token(_WORDS.index(match["word"]) + (0.5 if match["half"] else 0.0))

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
_NAMED_END = re.compile(rf"\b(?:max|min)(?:imum)?(?: (?:possible )?(?:scores?|ratings?|points?))?[ ,:=]{{1,4}}{TOKEN}")
_POINT_SCALE = re.compile(rf"{TOKEN}[ -]points? (?:likert )?scale")
_MEANS = r"(?: (?:is|being|as|means|meaning|indicates|indicating|represents|representing)\b| ?=)"
_END = r"(?: (?:the )?(?:highest|best|lowest|worst|maximum|minimum)\b)"
_EXPLAINED = [
    re.compile(rf"\b(?:where|with) {TOKEN}{_MEANS}(?:[^.;\n⟦⟧]{{0,60}}{TOKEN}(?:{_MEANS}|{_END}))?"),
    re.compile(rf"(?<=\() ?{TOKEN}{_MEANS}[^.;\n⟦⟧]{{0,60}}{TOKEN}(?:{_MEANS}|{_END})"),
]
_OTHER_SCALE = re.compile(rf"\bscale (?:of |from )?(?:between )?{TOKEN} ?(?:-|to|and) ?{TOKEN}")


def _without_echoes(text: str, score_range: ScoreRange) -> str:
    ends = (score_range.minimum, score_range.maximum)
    scales = {ends, ends[::-1]} if score_range.labels else {ends}
    scores = [list(score_range.values), list(score_range.values)[:: -1 if score_range.labels else 1]]

    def span(match: re.Match[str]) -> str:
        pair = (token_value(match[2]), token_value(match[4]))
        return " " if pair in scales and (match["by"] != "and" or match["between"]) else match[0]

    def interval(match: re.Match[str]) -> str:
        return " " if (token_value(match[1]), token_value(match[2])) in scales else match[0]

    def explained_ends(match: re.Match[str]) -> str:
        return " " if all(token_value(token) in ends for token in match.groups() if token) else match[0]

    def maximum(match: re.Match[str]) -> str:
        return " " if token_value(match[1]) == score_range.maximum else match[0]

    def listed(match: re.Match[str]) -> str:
        values = [token_value(token) for token in re.findall(TOKEN, match[0])]
        return " " if values in scores and len(values) > 2 else match[0]

    text = _BOUNDS.sub(interval, _ALL.sub(listed, text))
    text = _INTERVAL.sub(interval, _SPAN.sub(span, text))
    for pattern in (*_EXPLAINED, _NAMED_END):
        text = pattern.sub(explained_ends, text)
    return _OF_MAXIMUM.sub(maximum, _POINT_SCALE.sub(maximum, text))


# 4. Fractions and alternatives

_FRACTION = re.compile(
    rf"{TOKEN} ?(?:(?:stars?|points?) )?"
    r"(?P<of>/|out of(?: the| a(?: possible| maximum(?: of)?| total of)?)?|of(?: the)?|von|sur|sobre|de|su|из) ?"
    + TOKEN
)
_MAYBE = r"(?: (?:maybe|perhaps|possibly|even))?"
_ALTERNATIVES = re.compile(
    rf"(?:\bbetween )?{TOKEN}(?:(?: ?(?:,? ?or{_MAYBE}|,{_MAYBE}|-|to|and|~|/) ?| ){TOKEN}){{1,20}}{ENDS}"
)


def _collapsed(text: str, score_range: ScoreRange) -> str:
    def fraction(match: re.Match[str]) -> str:
        if token_value(match[3]) == score_range.maximum:
            return f"⟦{match[1]}/⟧"
        return match[0] if not match["of"].startswith(("/", "out")) else _token(math.nan)

    def alternatives(match: re.Match[str]) -> str:
        tokens = re.findall(TOKEN, match[0])
        if len({token_value(token) for token in tokens}) == 1:
            return f"⟦{tokens[0]}⟧"
        if " and " in match[0] and not match[0].startswith("between"):
            return match[0]  # two numbers side by side, not one vague one
        return _token(math.nan)

    text = text if score_range.worded else _FRACTION.sub(fraction, text)  # `B/A` is no part of A
    return _ALTERNATIVES.sub(alternatives, text)
