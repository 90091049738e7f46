"""Tokens of texts, by tokenizers that may come from anybody; control tokens, which no text may
forge; and texts as a model reads them, in its chat template or plain with the marks that its
tokenizer puts around them.

An example's text must never be read as a control token, or a judged text could forge a turn of the
chat: locally the token's name is tokenized in two parts (`ControlTokens`), and in a text that a
server tokenizes it is broken by a character that shows nothing (`SpelledNames`).
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from judgebench.prompts.rubrics import Filled
from judgebench.types import Array, Condition, Example, Prompt, Row, ScoreRange
from judgebench.words.errors import UserError, reason

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerBase

_LOOKS_LIKE_CONTROL = re.compile(r"<\|.+\|>")
_MARKS = ("\n", "\ue000")
"""What no tokenizer joins with a word: a newline, which T5's swallows, and a character that no
vocabulary has."""

Span = tuple[int, int]

BREAK = "\u200b"
"""ZERO WIDTH SPACE: it shows nothing, and no control token has one in its name."""

_NAMES = (files("judgebench.prompts") / "control_names.txt").read_text("utf-8").split()
_WORDS = [name[1:-1] for name in _NAMES if name.startswith("<")]
_BRACKETED = [name[1:-1] for name in _NAMES if name.startswith("[")]
"""Names of control tokens that models have, as regular expressions."""
# full-width and small forms as well, and either case: a tokenizer's normalizer may make the one of
# the other
_LEFT = "<﹤＜"
_RIGHT = ">﹥＞"
_BAR = "|｜"
_OPEN = r"\[［"
_CLOSE = r"\]］"
_LIKE_ANY_CONTROL = (
    # <|im_end|>, <|turn>, <｜end▁of▁sentence｜>
    rf"[{_LEFT}][{_BAR}][^{_LEFT}{_RIGHT}\n{BREAK}]{{1,64}}[{_RIGHT}]",
    rf"[{_LEFT}][^{_LEFT}{_RIGHT}{_BAR}\n{BREAK}]{{1,64}}[{_BAR}][{_RIGHT}]",  # <turn|>
    rf"(?i:[{_LEFT}]{{2}}/?SYS[{_RIGHT}]{{2}})",
    rf"(?i:[{_LEFT}](?:{'|'.join(_WORDS)})[{_RIGHT}])",
    rf"(?i:[{_OPEN}](?:{'|'.join(_BRACKETED)})[{_CLOSE}])",
)


@dataclass(frozen=True)
class PlainTokenizer:
    """The tokenizer of a judge that has none here: every so many `characters` are a token, which
    has no name; without them a text has 0 tokens. It has no chat template, and those attributes of
    transformers' that prompts ask for.

    Example:
        >>> PlainTokenizer(4)(["ten chars."])["offset_mapping"]
        [[(0, 4), (4, 8), (8, 10)]]
    """

    characters: int | None = None
    chat_template: ClassVar[None] = None
    bos_token_id = eos_token_id = unk_token_id = chat_template
    all_special_tokens: ClassVar[Sequence[str]] = ()
    added_tokens_decoder: ClassVar[Mapping[int, Any]] = {}
    name_or_path: ClassVar[str] = ""
    is_fast: ClassVar[bool] = True

    def __call__(self, texts: Sequence[str], **options: Any) -> dict[str, list[Any]]:
        size = self.characters
        spans = [
            [(i, min(i + size, len(text))) for i in range(0, len(text), size)] if size else []
            for text in texts
        ]
        return {"input_ids": [[0] * len(row) for row in spans], "offset_mapping": spans}

    def get_vocab(self) -> dict[str, int]:
        return {}

    def apply_chat_template(
        self, conversation: Any, tokenize: bool, add_generation_prompt: bool
    ) -> NoReturn:
        raise ValueError("there is no chat template")


def tokenized(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], call: Any = None, **options: Any
) -> BatchEncoding:
    """The encodings of some texts, without the special tokens that the tokenizer would add;
    `UserError` where it breaks down. `options` are those of its `call`."""
    try:
        return (call or tokenizer)(list(texts), **{"add_special_tokens": False, **options})
    except BaseException as error:
        # no Exception: so the library calls a fault of its own
        if type(error).__name__ != "PanicException":
            raise
        name = tokenizer.name_or_path or "without a name"
        raise UserError(
            f"The tokenizer {name} (judge.path) breaks down on a text ({reason(error)}); give another "
            "model."
        ) from error


def encode_texts(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text; see `tokenized`."""
    if not texts:
        return []
    rows: list[list[int]] = tokenized(tokenizer, texts, return_attention_mask=False)["input_ids"]
    return rows


# --- what texts share is tokenized once ---------------------------------------------------------

_WORDS_MEET = re.compile("[a-zA-Z](?= [a-zA-Z])")
"""A letter before a space and another letter, all of ASCII."""

_NEAR = 500
_LONGEST_END = 2000
"""Characters in which such a place is looked for, and which the ends of texts are compared by."""

_ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
)
_REST = r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_EXPRESSIONS = (
    f"{_ENDINGS}|{_WORD}{_REST}",
    f"{_CASED}{_REST}".replace(r"[\r\n]*", r"[\r\n/]*"),
    f"{_CASED}".replace("|", f"{_ENDINGS}?|")
    + f"{_ENDINGS}?{_REST}".replace(r"[\r\n]*", r"[\r\n/]*"),
)
"""Expressions by which tokenizers cut a text into pieces: those of Llama 3, Qwen, Mistral and
GPT-4o, here with digits one by one. None matches a letter before a space, and none looks back:
before the space between two letters a piece ends and one begins, whatever stands around them. So it
is with GPT-2's, which is a tokenizer's own over bytes."""


def cuts_between_words(tokenizer: PreTrainedTokenizerBase) -> bool:
    """True where the tokens of a text are for sure those of its two parts, wherever it is cut
    before a space between two letters of ASCII (`_WORDS_MEET`): of transformers' own tokenizers
    over bytes, whose pieces end there."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not type(tokenizer).__module__.startswith("transformers."):
        return False
    # 1. nothing is put before a text, and words are not joined; NFC leaves ASCII apart
    normalizer, steps = (
        {} if part is None else json.loads(part.__getstate__())
        for part in (backend.normalizer, backend.pre_tokenizer)
    )
    if normalizer.get("type", "NFC") != "NFC" or getattr(backend.model, "dropout", None):
        return False
    # 2. it cuts by expressions that are known, at digits, and by nothing else
    cuts = False
    *first, last = steps.get("pretokenizers", [steps])
    for step in (*first, last):
        kind = step.get("type")
        # (what comes behind one over bytes sees no spaces)
        if kind == "ByteLevel" and step is last and not step["add_prefix_space"]:
            cuts |= step["use_regex"]
        elif kind == "Split" and step["behavior"] == "Isolated" and not step["invert"]:
            expression = step["pattern"].get("Regex", "").replace(r"\p{N}{1,3}", r"\p{N}")
            if expression not in _EXPRESSIONS:
                return False
            cuts = True
        elif kind != "Digits":
            return False
    # 3. no added token reaches over such a place, takes the space with it, or looks at a neighbor
    return cuts and not any(
        token.single_word
        or re.search("[a-zA-Z] ", token.content)
        or (token.rstrip and token.content[-1:].isalpha())
        or (token.lstrip and token.content[:1].isalpha())
        for token in tokenizer.added_tokens_decoder.values()
    )


def encode_groups(
    tokenizer: PreTrainedTokenizerBase, groups: Sequence[Sequence[str]], cuts: bool
) -> list[list[Array]]:
    """The tokens [tokens] int32 of each text of some groups. Where a tokenizer `cuts` between words
    (`cuts_between_words`), what all texts begin and end with, and what those of a group begin with,
    is tokenized once."""
    texts = [text for group in groups for text in group]
    # 1. each text in up to four parts
    root = _last_cut(texts)
    end = _shared([text[:-_LONGEST_END:-1] for text in texts])
    parts_of: dict[str, list[str]] = {}
    for group in groups:
        places = {0, root, _last_cut(group)}
        for text in group if cuts else ():
            behind = _WORDS_MEET.search(text, max(len(text) - end, *places))
            at = sorted({*places, behind.end()} if behind else places)
            parts_of[text] = _parts(text, at[1:])
    # 2. the tokens of each part, and of each text
    different = list(dict.fromkeys(part for text in texts for part in parts_of.get(text, [text])))
    rows = encode_texts(tokenizer, different[:1] if cuts else different)
    # transformers has set the tokenizer's options by now, and would compute offsets, too
    if cuts:
        fast = tokenizer.backend_tokenizer.encode_batch_fast
        rows = [encoding.ids for encoding in tokenized(tokenizer, different, fast)]
    known = {part: np.array(ids, np.int32) for part, ids in zip(different, rows, strict=True)}
    return [
        [np.concatenate([known[part] for part in parts_of.get(text, [text])]) for text in group]
        for group in groups
    ]


def _last_cut(texts: Sequence[str]) -> int:
    """The last place between words that all texts begin with alike; 0 where there is none."""
    end = _shared(texts)
    places = [match.end() for match in _WORDS_MEET.finditer(texts[0], max(0, end - _NEAR), end)]
    return places[-1] if places else 0


def _shared(texts: Sequence[str]) -> int:
    """Characters that all texts begin with: those of the first and the last in order."""
    first = min(texts)
    last = max(texts)
    low = 0
    high = len(first)
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == last[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class ControlTokens:
    """The control tokens of one tokenizer, and how to write their names without saying them.

    Those are its special tokens, and of the others added to its vocabulary the ones that its chat
    template names (`<think>`) or that look like `<|...|>`. Whitespace is never one: templates write
    it as ordinary text.

    A name inside an example's text is tokenized in two parts, cut after its first character. The
    recorded text stays as it is, and a text without such names is never cut: its tokens are those
    of the whole.

    Names are not all: a tokenizer may make control tokens of other texts (one that lowers letters
    of `<|END|>`). So the control tokens of every finished prompt are counted, and what is one too
    many is cut where it stands, or refused.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self._tokenizer = tokenizer
        template = str(tokenizer.chat_template or "")
        added = tokenizer.added_tokens_decoder
        names = set(tokenizer.all_special_tokens) | {
            token.content
            for token in added.values()
            if token.special
            or token.content in template
            or _LOOKS_LIKE_CONTROL.fullmatch(token.content)
        }
        names = {name for name in names if name and not name.isspace()}
        # what cannot be spelled becomes the unknown token in any text; no template speaks through
        # it
        numbers = [tokenizer.convert_tokens_to_ids(name) for name in names]
        self._ids = {
            number
            for number in numbers
            if isinstance(number, int) and number != tokenizer.unk_token_id
        }
        self._is_control = np.zeros(max(self._ids, default=-1) + 1, dtype=bool)
        self._is_control[sorted(self._ids)] = True
        # the longest first, as the tokenizer itself finds them
        self._names = re.compile(
            "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)"
        )
        self._mark = next((mark for mark in _MARKS if self._plainly(mark)), _MARKS[0])
        self._marked = self._plainly(self._mark)
        # SentencePiece puts a space before a text's first word, and must not before a part from the
        # middle
        self._starts_with_space = self._plainly(self._mark + "a") != self._marked + self._plainly(
            "a"
        )

    @property
    def pattern(self) -> str:
        """A regular expression for any of the names; it matches nothing where there is none."""
        return self._names.pattern

    def broken(self, filled: Filled) -> tuple[Filled, int]:
        """The prompt with a text that says no name of a control token, and how many were broken for
        it. Here none is: tokens spell the names (`encode`), and the text stays."""
        return filled, 0

    def cuts(self, text: str, said: Sequence[Span]) -> list[int]:
        """Positions at which a prompt must be cut, so that no name of a control token that touches
        a span [start, end) of what the example says stays whole."""
        places = []
        at = 0
        while match := self._names.search(text, at):
            start, end = match.span()
            touches = any(first < end and start < last for first, last in said)
            at = start + 1 if touches else end
            if touches:
                places.append(at)
        return places

    def count(self, ids: Sequence[int] | Array) -> int:
        """Number of control tokens among some tokens."""
        numbers = np.asarray(ids, np.int32)  # of no tokens too
        return int(self._is_control[numbers[numbers < len(self._is_control)]].sum())

    def encode(self, text: str, cuts: Sequence[int]) -> list[int]:
        """The tokens of `text`, its parts tokenized one by one; see `cuts`."""
        first, *others = _parts(text, cuts)
        rows = encode_texts(self._tokenizer, others)  # one call for all, since there may be many
        if self._starts_with_space:
            # behind a mark no part begins a text; the mark's own tokens are taken off again
            long = len(self._marked)
            marked = encode_texts(self._tokenizer, [self._mark + part for part in others])
            for place, whole in enumerate(marked):
                if whole[:long] != self._marked:
                    continue
                # where the part begins with an unknown character too, one token stands for both
                merged = whole == rows[place]
                rows[place] = whole[long - 1 :] if merged else whole[long:]
        return [*self._plainly(first), *itertools.chain(*rows)]

    def spell(
        self,
        text: str,
        said: Sequence[Span],
        allowed: int,
        where: str,
        whole: Sequence[int] | Array | None = None,
    ) -> tuple[Array, int]:
        """The tokens [tokens] int32 of a prompt in which nothing that the example says is a control
        token, and how many were broken for it; `UserError` where the tokenizer makes one out of
        plain text, wherever that is cut.

        Args:
            said: [start, end) of what the example says.
            allowed: control tokens of the same prompt about a harmless example.
            where: names the prompt in the error.
            whole: the tokens of the text without a cut, where they are known.
        """
        places = set(self.cuts(text, said))
        broken = len(places)
        while True:
            cuts = sorted(places)
            ids = np.array(self.encode(text, cuts) if cuts or whole is None else whole, np.int32)
            if self.count(ids) <= allowed:
                return ids, broken
            formed = self._formed(text, cuts, said) - places
            if not formed:
                tokens = [token for token in ids.tolist() if token in self._ids]
                raise UserError(
                    f"{where}: the text holds a control token "
                    f"({self._tokenizer.decode(tokens[-1:])!r}) that this tokenizer cannot read as "
                    "plain text, or that its chat template puts into the prompt a second time; "
                    "remove it from the text."
                )
            places |= formed
            broken += len(formed)

    def _formed(self, text: str, cuts: Sequence[int], said: Sequence[Span]) -> set[int]:
        """Positions that cut the control tokens that the tokenizer makes of an example's text; none
        where it does not say what it makes them of."""
        if not self._tokenizer.is_fast:
            return set()
        parts = _parts(text, cuts)
        encoded = tokenized(self._tokenizer, parts, return_offsets_mapping=True)
        places = set()
        for at, ids, spans in zip(
            [0, *cuts], encoded["input_ids"], encoded["offset_mapping"], strict=True
        ):
            for token, (start, end) in zip(ids, spans, strict=True):
                touches = any(first < at + end and at + start < last for first, last in said)
                if token in self._ids and touches and end - start > 1:
                    places.add(at + start + 1)
        return places

    def _plainly(self, text: str) -> list[int]:
        return encode_texts(self._tokenizer, [text])[0]


class SpelledNames(ControlTokens):
    """Names that look like a control token of any model, and those of one tokenizer where it is at
    hand, broken in the text: a server frames a message in its chat template and tokenizes the
    whole, and many then read `<|im_end|>` inside the message as the control token.

    Args:
        counting: counts the tokens of what is sent.
        tokenizer: the served model's own, where it is known.
    """

    def __init__(
        self, counting: PreTrainedTokenizerBase, tokenizer: PreTrainedTokenizerBase | None = None
    ):
        super().__init__(counting)
        names = [] if tokenizer is None else [ControlTokens(tokenizer).pattern]
        self._names = re.compile("|".join([*names, *_LIKE_ANY_CONTROL]))

    def broken(self, filled: Filled) -> tuple[Filled, int]:
        """A prompt with `BREAK` after the first character of each name that the example says, and
        how many it says."""
        places = self.cuts(filled.text, filled.said)
        if not places:
            return filled, 0
        # 1. the text with its breaks
        text = filled.text
        ends = [0, *places, len(text)]
        whole = BREAK.join(text[start:end] for start, end in itertools.pairwise(ends))

        # 2. what stands behind a break has moved
        def moved(at: int) -> int:
            return at + sum(place < at for place in places)

        said = tuple((moved(start), moved(end)) for start, end in filled.said)
        start = moved(len(filled.prefix))
        return Filled(whole[:start], whole[start:], said), len(places)

    def spell(
        self,
        text: str,
        said: Sequence[Span],
        allowed: int,
        where: str,
        whole: Sequence[int] | Array | None = None,
    ) -> tuple[Array, int]:
        """The tokens of `text` as they are counted; no cut changes what is sent."""
        return np.array(self._plainly(text) if whole is None else whole, np.int32), 0


def _parts(text: str, cuts: Sequence[int]) -> list[str]:
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


# --- chat formats -------------------------------------------------------------------------------


_ALONE = Condition("text", ScoreRange(0, 1))
"""The condition of a text by itself: whoever plans batches asks for one; nothing depends on it."""


class ChatFormat:
    """One user turn in a tokenizer's chat template, if it has one; else the text plain, with the
    tokenizer's BOS before it.

    Args:
        options: passed to the template.
        closed: True ends a plain text with the tokenizer's EOS, where it would put one.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, options: Row | None, closed: bool):
        self._tokenizer = tokenizer
        self._options = dict(options or {})
        taken = {*inspect.signature(tokenizer.apply_chat_template).parameters, "messages"} - {
            "kwargs"
        }
        if clash := sorted(taken & set(self._options)):
            raise UserError(
                f"prompt.template_options.{clash[0]}: judgebench itself decides how the template "
                "is applied; leave it out."
            )
        self._bos, eos = _plain_marks(tokenizer)
        self._eos = eos if closed else ""

    def __call__(self, filled: Filled) -> Filled:
        """A text as a model reads it."""
        # templates trim their content; trimmed beforehand, the text stands in the result as it is
        content = filled.text.strip()
        trimmed = len(filled.text) - len(filled.text.lstrip())
        text = self._bos + content + self._eos
        places = [len(self._bos)]
        if self._tokenizer.chat_template is not None:
            try:
                text = str(
                    self._tokenizer.apply_chat_template(
                        [{"role": "user", "content": content}],
                        tokenize=False,
                        add_generation_prompt=True,
                        **self._options,
                    )
                )
            # a template is a program of its own, and raises what it likes
            except Exception as error:
                raise UserError(
                    "The chat template of the tokenizer "
                    f"{self._tokenizer.name_or_path or 'without a name'} (judge.path) fails on one "
                    f"user turn ({type(error).__name__}: {reason(error)}); mend it, or give "
                    "another."
                ) from error
            at = text.find(content)
            places = [] if content else [0]
            # a regular expression of the content would be compiled anew for each prompt
            while content and at >= 0:
                places.append(at)
                at = text.find(content, at + len(content))
        if not places:
            raise UserError(
                "The tokenizer's chat template changes the text that it is given, so that the "
                "judge would not read what is recorded; give another with judge.path of a "
                "tokenizer without a template, or mend it."
            )

        def moved(spans: Sequence[Span], at: int) -> list[Span]:
            shift = at - trimmed
            end = at + len(content)
            return [(max(first + shift, at), min(last + shift, end)) for first, last in spans]

        # a template may give its content twice, and the example speaks in both places
        said = tuple(span for at in places for span in moved(filled.said, at))
        start = max(len(filled.prefix) + places[0] - trimmed, places[0])
        return Filled(text[:start], text[start:], said)


def text_prompts(
    tokenizer: PreTrainedTokenizerBase, examples: Sequence[Example], max_tokens: int, remedy: str
) -> list[Prompt]:
    """The judged text of each example, in order, after the BOS that the tokenizer itself puts
    before a plain text; no tokens where there is neither. Names of control tokens are spelled as
    plain text (see `ControlTokens`). `UserError` for a text that is too long, which ends with
    `remedy`."""
    control, (before, _) = ControlTokens(tokenizer), _plain_marks(tokenizer)
    prompts = []
    for example in examples:
        text = before + example.output
        said = [(len(before), len(text))]
        allowed = int(bool(before))
        ids, broken = control.spell(text, said, allowed, f"example {example.example_id}")
        if len(ids) > max_tokens:
            raise UserError(
                f"The text of example {example.example_id} has {len(ids)} tokens, and the model "
                f"reads at most {max_tokens}; {remedy}."
            )
        prompts.append(Prompt(example, _ALONE, "", text, ids, 0, broken))
    return prompts


def _plain_marks(tokenizer: PreTrainedTokenizerBase) -> tuple[str, str]:
    """The BOS and the EOS that the tokenizer itself would put around a plain text, or nothing."""
    (ids,) = tokenized(tokenizer, ["a"], add_special_tokens=True)["input_ids"]
    starts = tokenizer.bos_token_id is not None and ids[:1] == [tokenizer.bos_token_id]
    ends = tokenizer.eos_token_id is not None and ids[-1:] == [tokenizer.eos_token_id]
    return str(tokenizer.bos_token) if starts else "", str(tokenizer.eos_token) if ends else ""
