"""Dialogues as a cell holds them: a list of messages in OpenAI's form (`role`, `content`) or
ShareGPT's (`from`, `value`), also as JSON text; and what of them is judged.

A path into a row ends with one of three words: `messages.reply` is the last reply of the assistant,
`messages.before` what came before it, `messages.whole` the whole dialogue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from judgebench.runtime.parsing import opened

REPLY, BEFORE, WHOLE = PARTS = ("reply", "before", "whole")

_SPEAKERS = ("role", "from", "speaker", "author")
_TEXTS = ("content", "value", "text", "message")
"""Names that messages have for who speaks, and for what is said."""

_ASSISTANTS = frozenset(["assistant", "gpt", "bot", "chatgpt", "model", "ai", "chatbot", "agent"])
_CALLED = {"human": "user", "prompter": "user", **dict.fromkeys(_ASSISTANTS, "assistant")}
"""Speakers who are the judged one; and what others call a speaker."""

Turn = tuple[str, str]
"""A speaker and what they say."""


def turns_of(value: Any) -> list[Turn] | None:
    """The turns of a dialogue; None of a value that is none.

    Example:
        >>> turns_of('[{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]')
        [('user', 'Hi'), ('assistant', 'Hello')]
    """
    if isinstance(value, str):
        value = opened(value)
    if not isinstance(value, list) or not value:
        return None
    turns = []
    for message in value:
        turn = _turn(message)
        if turn is None:
            return None
        turns.append(turn)
    return turns


def _turn(message: Any) -> Turn | None:
    if not isinstance(message, Mapping):
        return None
    speaker = next((message[name] for name in _SPEAKERS if name in message), None)
    texts = [message[name] for name in _TEXTS if name in message]
    calls = message.get("tool_calls")
    if not isinstance(speaker, str) or not (texts or calls):
        return None
    if texts and not isinstance(texts[0], str | list | None):
        return None
    said = [_said(texts[0])] if texts else []
    for call in calls if isinstance(calls, list) else ():
        said.append(f"[calls {_called(call)}]")
    return _CALLED.get(speaker.lower(), speaker.lower()), "\n".join(filter(None, said))


def _said(content: Any) -> str:
    """Words of a message: a text, or the texts of its parts, with the names of others."""
    if isinstance(content, str) or content is None:
        return content or ""
    said = []
    for part in content if isinstance(content, Sequence) else [content]:
        if isinstance(part, Mapping):
            text = part.get("text")
            part = text if isinstance(text, str) else f"[{part.get('type', 'a part without text')}]"
        said.append(str(part))
    return "\n".join(said)


def _called(call: Any) -> str:
    """The function of a call, and what it is given."""
    function = call.get("function", call) if isinstance(call, Mapping) else call
    if not isinstance(function, Mapping):
        return str(function)
    given = function.get("arguments", "")
    return f"{function.get('name')}({given if isinstance(given, str) else json.dumps(given)})"


def part_of(value: Any, part: str) -> str | None:
    """A part of a dialogue as text; None of a value that is none, or that has no such part.

    Example:
        >>> messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
        >>> [part_of(messages, part) for part in PARTS]
        ['Hello', 'Hi', 'User: Hi\\n\\nAssistant: Hello']
    """
    turns = turns_of(value)
    if turns is None:
        return None
    replies = []
    for place, (speaker, text) in enumerate(turns):
        if speaker == "assistant" and text.strip():
            replies.append(place)
    if part == WHOLE:
        return _written(turns)
    if not replies:
        return None
    if part == REPLY:
        return turns[replies[-1]][1]
    before = turns[: replies[-1]]
    alone = [text for speaker, text in before if speaker == "user"]
    if len(before) == len(alone) == 1:
        return alone[0]
    return _written(before) or None


def _written(turns: Sequence[Turn]) -> str:
    return "\n\n".join(f"{speaker.capitalize()}: {text}" for speaker, text in turns if text)
