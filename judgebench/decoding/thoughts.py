"""Thoughts inside an answer: the tags around them, and the part of the text that is the answer.

All that reads an answer reads this part alone: the parser its text, a served judge the place of its
score. Tags of thoughts are known by their words; of any other tag what stands between it and its
end is no answer, unless its name has a known meaning, or it holds a tag that has one, or nothing but
a value.
"""

from __future__ import annotations

import re

_OPENS = "(?:<|&lt;|&#60;|&#x3c;)"
_CLOSES = "(?:>|&gt;|&#62;|&#x3e;)"
_STEMS = r"think(?:ing)?|thoughts?|reasoning|scratchpad|analysis|reflection"
_NAMES = (
    rf"(?:\w{{1,20}}[:_-]){{0,3}}(?:{_STEMS})(?:[_-](?!scores?\b|ratings?\b|grades?\b)\w{{1,20}})?"
)
_TAG = re.compile(
    rf"{_OPENS}(?P<end>/?)(?P<name>{_NAMES})(?:\s[^<>]{{0,100}})?(?<!/){_CLOSES}"
    r"|(?P<kimi>◁(?P<end_kimi>/?)think▷)"
    r"|(?P<mistral>\[(?P<end_mistral>/?)think\])"
    r"|(?P<named><\|(?:begin|start|(?P<end_named>end))_(?:of_)?(?:thought|thinking)\|>)"
    # the channels of gpt-oss; a server may leave out the marks around their names
    r"|(?P<channel><\|channel\|>\s{0,9}"
    r"(?:analysis|commentary|(?P<end_channel>final(?:<\|message\|>)?))"
    r"|\A(?-i:analysis(?=[A-Z]))|(?P<end_plain>(?-i:assistantfinal)))"
    # those of Gemma, and the reserved tokens of its kin
    r"|(?P<gemma><\|channel>|(?P<end_gemma><channel\|>))"
    r"|(?P<reserved><unused\d{1,4}>(?=thought)|(?P<end_reserved><unused\d{1,4}>))",
    re.IGNORECASE,
)
"""A tag of thoughts, in the group of its kind, or of a kind that its name says."""
_EXPLANATIONS = re.compile("reasoning|analysis|reflection")
"""Tags that judges also put around the reasons behind a score."""

_FIRST = rf"(?:\A|(?<=[\n>])|(?<=&gt;))[ \t]{{0,9}}{_OPENS}"
_MEANINGLESS = re.compile(
    rf"{_FIRST}(?P<name>[a-z][\w.:-]{{0,40}})(?P<more>\s[^<>]{{0,100}})?(?<!/){_CLOSES}",
    re.IGNORECASE,
)
"""A tag that may be without a known meaning: one in the middle of a sentence is spoken of."""
_ANY = re.compile(
    rf"{_OPENS}(?P<end>/?)(?P<name>[a-z][\w.:-]{{0,40}})(?:\s[^<>]{{0,100}})?{_CLOSES}",
    re.IGNORECASE,
)
_INNER = re.compile(rf"\s{{0,9}}({_OPENS}[a-z][^<>]{{0,140}}?{_CLOSES})", re.IGNORECASE)
"""A tag right behind another: one of known meaning is framed by that, as `<review><score>4` is."""
_NUMBER = r"[\d.,/+-]{1,12}(?: (?:out )?of \d{1,9})?"
_VALUE = re.compile(
    rf"[\s:*]{{0,9}}(?:{_NUMBER}|\w{{1,20}})[.*]{{0,3}}\s{{0,9}}{_OPENS}/"
    rf"|[ \t:*]{{0,9}}{_NUMBER}[.*]{{0,3}}[ \t]{{0,9}}(?:\Z|\n)"
)
"""What stands behind a tag that names a field: `<coherence>4</coherence>`."""
_KNOWN = re.compile(
    # where answers stand
    r"(?<![^\W_])(?:answers?|arguments?|assessment|call|category|choice|class|conclusion|decision"
    r"|evaluation|fail|final|function|grades?|invoke|json|judge?ment|label|marks?|option|output"
    r"|overall|parameters?|pass|points|prefer(?:ence|red)|rank|ratings?|reply|response|results?"
    r"|scores?|stars|tool|total|value|verdict|winner"
    # what is to be filled in
    r"|float|insert|int|integer|n|number|x|your"
    # turns and their ends
    r"|assistant|begin|bos|channel|end|eos|message|model|pad|s|start|system|turn|user"
    # markup
    r"|b|blockquote|body|br|center|code|d[dlt]|del|details|div|em|font|h[1-6r]|head|html|i|ins|kbd"
    r"|li|ol|p|pre|q|samp|section|small|span|strike|strong|su[bp]|t[dhrt]|table|tbody|tfoot|thead"
    r"|ul?)(?![^\W_])",
    re.IGNORECASE,
)
"""Words of tags with a known meaning."""


def answer_in(text: str) -> str:
    """The part of a text that is the answer, see `answer_span`, without what tags of no known
    meaning hold.

    Example:
        >>> answer_in("<inner_voice>Score: 2?</inner_voice><score>4</score>").strip()
        '<score>4</score>'
    """
    text = blanked(text)
    return text[slice(*answer_span(text))]


def blanked(text: str) -> str:
    """A text, with line ends in the place of what stands in tags of no known meaning; those that do
    not end last to the end of the text. Tags of thoughts stay, for they also tell what stands before
    them."""
    parts = []
    kept = at = 0
    while tag := _MEANINGLESS.search(text, at):
        at = tag.end()
        inner = _INNER.match(text, at)
        frames = inner is not None and _has_meaning(inner[1])
        if frames or _has_meaning(tag[0]) or _VALUE.match(text, at):
            continue
        at = _end_of(text, tag["name"], at)
        parts += [text[kept : tag.start()], "\n" * (at - tag.start())]
        kept = at
    return "".join([*parts, text[kept:]])


def _has_meaning(tag: str) -> bool:
    """True of an opening tag of thoughts, or with a word of known meaning."""
    return bool(_KNOWN.search(tag) or _TAG.match(tag.lstrip()))


def _end_of(text: str, name: str, start: int) -> int:
    """The end of an element whose opening tag ends at `start`."""
    depth = 1
    for tag in _ANY.finditer(text, start):
        if tag["name"].lower() == name.lower():
            depth += -1 if tag["end"] else 1
        if not depth:
            return tag.end()
    return len(text)


def answer_span(text: str) -> tuple[int, int]:
    """Beginning and end of the answer in a text that may hold thoughts: what follows the last of
    them, up to thoughts that do not end, for the budget was spent. Tags may be nested. A closing
    tag alone ends thoughts that the chat template has opened. Reasons between tags behind a score
    are no thoughts before it.

    Example:
        >>> text = "<think>Score: 2? <think>No.</think> Score: 3?</think>4"
        >>> text[slice(*answer_span(text))]
        '4'
        >>> text = "<think>Score: 2? <think>No.</think> Final Rating: 3"
        >>> text[slice(*answer_span(text))]
        ''
    """
    start = 0
    first = begin = len(text)
    opened: list[str] = []
    kind = ""
    for tag in _TAG.finditer(text):
        kind = tag["name"].lower() if tag["name"] else str(tag.lastgroup)
        parts = tag.groupdict().items()
        ends = any(value for name, value in parts if name.startswith("end"))
        if not ends:
            if not opened:
                begin = tag.start()
                first = min(first, begin)
            if kind != "channel" or kind not in opened:
                opened.append(kind)
        elif kind in opened:
            del opened[len(opened) - 1 - opened[::-1].index(kind) :]
            start = start if opened else tag.end()
        elif not opened:
            start = tag.end()
            first = 0
    if opened:
        return start, begin
    if _EXPLANATIONS.search(kind) and not re.search(r"\w", text[start:]) and text[:first].strip():
        return 0, first
    return start, len(text)
