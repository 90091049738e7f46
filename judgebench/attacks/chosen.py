"""From the config key `attacks` to attacks: judgebench's, template files, learned phrases, and the user's classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from judgebench.attacks.attack import NONE, Attack, PhraseAttack, TemplateAttack
from judgebench.attacks.held import HeldAttack
from judgebench.attacks.learned import read_phrase
from judgebench.own import TARGET, own
from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import read_text

_TEMPLATES = files("judgebench.attacks") / "templates"
_KINDS = ("template", "phrase_file")
_KEYS = (*_KINDS, "name")


def shipped_attacks() -> dict[str, Attack]:
    """Name -> attack, of those that come with judgebench, `none` first.

    `dsi`, `bed` and `adaptive` are worded as in the CAP paper (its appendix B); the rest are the kinds of injection
    that RobustJudge (Li et al. 2025) tests, in words of our own.
    """
    texts = {item.name.removesuffix(".txt"): item.read_text("utf-8") for item in _TEMPLATES.iterdir()}
    return {"none": NONE, **{name: TemplateAttack(name, _whole(texts[name])) for name in sorted(texts)}}


def chosen_attacks(given: Sequence[Any]) -> list[Attack]:
    """The attacks that the config names, `none` first where it is not named: every change needs its clean base.

    Args:
        given: each a shipped attack's name, the path of a template (`.txt`), a mapping with `template` (a path) or
            `phrase_file` (the path of a JSON object with "phrase"), and `name`, by default the file's; or a mapping
            with `_target_`, a subclass of `Attack` (see there), and what that takes.

    Raises:
        UserError: an entry that is none of these, a file or class that cannot be read, or two attacks of one name.
    """
    shipped: Mapping[str, Attack] = shipped_attacks()
    chosen = [_attack(entry, shipped) for entry in given]
    names = [attack.name for attack in chosen]
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise UserError(
            f"attacks: there are two called {twice[0]!r}; name each once, or give files and classes names of their "
            "own, as in {template: FILE.txt, name: mine}."
        )
    return chosen if NONE in chosen else [NONE, *chosen]


def _attack(entry: Any, shipped: Mapping[str, Attack]) -> Attack:
    if isinstance(entry, str):
        if entry in shipped:
            return shipped[entry]
        if not entry.endswith(".txt") and "/" not in entry:
            raise UserError(
                f"attacks: there is no attack {entry!r}; there are {', '.join(shipped)}, templates of your own (the "
                "path of a .txt file), learned phrases ({phrase_file: FILE.json}) and classes of your own "
                "({_target_: file.Class})."
            )
        entry = {"template": entry}
    if isinstance(entry, Mapping) and TARGET in entry:
        made = HeldAttack(own(entry, "attacks", Attack))
        if made.name in shipped:
            raise UserError(
                f"attacks: what {entry[TARGET]!r} gives would be called {made.name!r}, as an attack that comes with "
                "judgebench is; give it another name."
            )
        return made
    if not isinstance(entry, Mapping) or len(set(entry) & set(_KINDS)) != 1 or not set(entry) <= set(_KEYS):
        raise UserError(
            f"attacks: {entry!r} is no attack; give a name, the path of a template, a mapping with template or "
            "phrase_file, and name if you like, or one with _target_, a class of your own."
        )
    kind = next(kind for kind in _KINDS if kind in entry)
    path = entry[kind]
    if not isinstance(path, str) or not path.strip():
        raise UserError(f"attacks: {kind} must be the path of a file, got {path!r}.")
    file = Path(path).expanduser()
    name = entry.get("name", file.stem)
    if not isinstance(name, str) or not name.strip():
        raise UserError(f"attacks: the name of {path} must be text, got {name!r}.")
    if name in shipped:
        raise UserError(
            f"attacks: {path} would be called {name!r}, as an attack that comes with judgebench is; give it another "
            f"name, as in {{{kind}: {path}, name: mine}}."
        )
    if kind == "template":
        return TemplateAttack(name, _whole(_read(file)))
    return PhraseAttack(name, read_phrase(file, "attacks: phrase_file")["phrase"])


def _whole(text: str) -> str:
    """A file's text without the line end that editors put last."""
    return text.removesuffix("\n").removesuffix("\r")


def _read(file: Path) -> str:
    # as it is: universal newlines would turn a carriage return, which may be part of an attack, into another character
    return read_text(file, f"attacks: template {file}", remedy="give an existing text file")
