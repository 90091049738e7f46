"""From the config key `defenses` to defenses: those that judgebench ships, template files, and own classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from judgebench.defenses.cot import Cot
from judgebench.defenses.detection import planned_detection
from judgebench.defenses.detectors import DETECTORS
from judgebench.defenses.paraphrase import PARAPHRASE, PlannedParaphrase
from judgebench.defenses.references import REFERENCE_DEFENSES, planned_references
from judgebench.defenses.retokenization import Retokenization
from judgebench.defenses.settings import DefenseSettings
from judgebench.defenses.template import NONE, TemplateDefense
from judgebench.own import TARGET, own
from judgebench.prompts.builder import Defense
from judgebench.runtime.errors import UserError
from judgebench.runtime.parsing import read_text
from judgebench.tutor.spec import TutorSpec

_TEMPLATES = files("judgebench.defenses") / "templates"
_KEYS = ("template", "name")


Maker = Callable[[], Defense]


def shipped_defenses(settings: DefenseSettings, tutor: TutorSpec | None = None) -> dict[str, Maker]:
    """Name -> what makes the defense, of those that come with judgebench, `none` first.

    The CAP paper's own (cot, perplexity, cap, w_cap, random_reference), and those that its section 2.3 names and the
    injection literature tests (the others), in words of our own but for the perplexity detector's warning.

    Args:
        settings: of conf/defense.
        tutor: who writes references; without one, making a defense that needs it raises a `UserError`.
    """
    texts = {item.name.removesuffix(".txt"): item.read_text("utf-8") for item in _TEMPLATES.iterdir()}
    made: dict[str, Maker] = {
        name: partial(TemplateDefense.parse, name, texts[name], settings.seed) for name in sorted(texts)
    }
    made["retokenization"] = partial(Retokenization, "retokenization", settings.seed)
    made["cot"] = partial(Cot, settings.cot_tokens)
    made |= {name: partial(planned_detection, name, settings) for name in DETECTORS}
    made[PARAPHRASE] = partial(PlannedParaphrase, settings.helper, settings.paraphrase_tokens)
    swapped = settings.swap_references
    made |= {name: partial(planned_references, name, tutor, swapped) for name in REFERENCE_DEFENSES}
    return {NONE.name: lambda: NONE, **made}


def chosen_defenses(given: Sequence[Any], settings: DefenseSettings, tutor: TutorSpec | None = None) -> list[Defense]:
    """The defenses that the config names, in its order; `none` is one only where it is named. Those that are `Planned`
    are not ready yet.

    Args:
        given: each a shipped defense's name, the path of a template (`.txt`), a mapping with `template` (a path) and
            `name`, by default the file's; or a mapping with `_target_`, a subclass of `Defense` (see there), and what
            that takes.
        settings, tutor: see `shipped_defenses`.

    Raises:
        UserError: an entry that is none of these, a file or class that cannot be read, two defenses of one name, or one
            that needs a tutor where there is none.
    """
    shipped = shipped_defenses(settings, tutor)
    chosen = [_defense(entry, shipped, settings.seed) for entry in given]
    names = [defense.name for defense in chosen]
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise UserError(
            f"defenses: there are two called {twice[0]!r}; name each once, or give files and classes names of their "
            "own, as in {template: FILE.txt, name: mine}."
        )
    return chosen


def _defense(entry: Any, shipped: Mapping[str, Maker], seed: int) -> Defense:
    if isinstance(entry, str):
        if entry in shipped:
            return shipped[entry]()
        if not entry.endswith(".txt") and "/" not in entry:
            raise UserError(
                f"defenses: there is no defense {entry!r}; there are {', '.join(shipped)}, templates of your own (the "
                "path of a .txt file) and classes of your own ({_target_: file.Class})."
            )
        entry = {"template": entry}
    if isinstance(entry, Mapping) and TARGET in entry:
        made: Defense = own(entry, "defenses", Defense)
        if made.name in shipped:
            raise UserError(
                f"defenses: what {entry[TARGET]!r} gives would be called {made.name!r}, as a defense that comes with "
                "judgebench is; give it another name."
            )
        return made
    if not isinstance(entry, Mapping) or "template" not in entry or not set(entry) <= set(_KEYS):
        raise UserError(
            f"defenses: {entry!r} is no defense; give a name, the path of a template, a mapping with template, and "
            "name if you like, or one with _target_, a class of your own."
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
    template = read_text(file, f"defenses: template {file}", remedy="give an existing text file")
    return TemplateDefense.parse(name, template.replace("\r\n", "\n").replace("\r", "\n"), seed)
