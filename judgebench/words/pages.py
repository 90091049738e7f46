"""Pages whose texts become no markup, and which load nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from judgebench.words.errors import escape_control


def page_templates(folder: Path) -> jinja2.Environment:
    """The templates of a folder. Ids, names and texts come from data sets and models: none of them
    may become markup."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        optimized=False,  # a page is written once: what that saves there, it costs in compiling
        finalize=lambda said: (
            said if isinstance(said, Markup) or not isinstance(said, str) else escape_control(said)
        ),
        trim_blocks=True,
        lstrip_blocks=True,
    )


def content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Content security policy of the page: these styles and scripts, by their digests, and images
    that stand in the page itself; nothing over a network, and nothing that a text in it says."""
    return "; ".join(
        [
            "default-src 'none'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            f"style-src {_digests(styles)}",
            f"script-src {_digests(scripts)}",
        ]
    )


def _digests(contents: Iterable[str]) -> str:
    digests = (hashlib.sha256(content.encode()).digest() for content in contents)
    return " ".join(f"'sha256-{base64.b64encode(one).decode('ascii')}'" for one in digests)
