"""From the config key `defenses` to defenses: those that judgebench ships, and template files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from judgebench.defenses.retokenization import Retokenization
from judgebench.defenses.template import NONE, TemplateDefense
from judgebench.errors import UserError
from judgebench.prompts.defended import Defense

_TEMPLATES = files("judgebench.defenses") / "templates"
_KEYS = ("template", "name")


def shipped_defenses(seed: int = 0) -> dict[str, Defense]:
    """Name -> defense, of those that come with judgebench, `none` first.

    They are the kinds that the CAP paper's section 2.3 names and the injection literature tests (task-reinforcing
    instruction, sandwich, delimiters, retokenization), in words of our own.

    Args:
        seed: of all that they draw.
    """
    texts = {item.name.removesuffix(".txt"): item.read_text("utf-8") for item in _TEMPLATES.iterdir()}
    worded: dict[str, Defense] = {name: TemplateDefense.parse(name, text, seed) for name, text in texts.items()}
    drawn = Retokenization("retokenization", seed)
    return {NONE.name: NONE, **{name: worded[name] for name in sorted(worded)}, drawn.name: drawn}


def chosen_defenses(given: Sequence[Any], seed: Any = 0) -> list[Defense]:
    """The defenses that the config names, in its order; `none` is one only where it is named.

    Args:
        given: each a shipped defense's name, the path of a template (`.txt`), or a mapping with `template` (a path) and
            `name`, by default the file's.
        seed: of all that they draw.

    Raises:
        UserError: an entry that is none of these, a file that cannot be read, two defenses of one name, or a seed that
            is no whole number.
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise UserError(f"defenses_seed: {seed!r} is not a whole number of at least 0.")
    shipped: Mapping[str, Defense] = shipped_defenses(seed)
    chosen = [_defense(entry, shipped, seed) for entry in given]
    names = [defense.name for defense in chosen]
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise UserError(
            f"defenses: there are two called {twice[0]!r}; name each once, or give files names of their own, as in "
            "{template: FILE.txt, name: mine}."
        )
    return chosen


def _defense(entry: Any, shipped: Mapping[str, Defense], seed: int) -> Defense:
    if isinstance(entry, str):
        if entry in shipped:
            return shipped[entry]
        if not entry.endswith(".txt") and "/" not in entry:
            raise UserError(
                f"defenses: there is no defense {entry!r}; there are {', '.join(shipped)}, and templates of your own "
                "(the path of a .txt file)."
            )
        entry = {"template": entry}
    if not isinstance(entry, Mapping) or "template" not in entry or not set(entry) <= set(_KEYS):
        raise UserError(
            f"defenses: {entry!r} is no defense; give a name, the path of a template, or a mapping with template, and "
            "name if you like."
        )
    path = entry["template"]
    if not isinstance(path, str) or not path.strip():
        raise UserError(f"defenses: template must be the path of a file, got {path!r}.")
    file = Path(path).expanduser()
    name = entry.get("name", file.stem)
    if not isinstance(name, str) or not name.strip():
        raise UserError(f"defenses: the name of {path} must be text, got {name!r}.")
    if name in shipped:
        raise UserError(
            f"defenses: {path} would be called {name!r}, as a defense that comes with judgebench is; give it another "
            f"name, as in {{template: {path}, name: mine}}."
        )
    try:
        template = file.read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserError(f"defenses: template {file} cannot be read ({reason}); give an existing text file.") from error
    return TemplateDefense.parse(name, template, seed)
