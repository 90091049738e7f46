"""Figures on a dark page: the same drawing, its ink light and its paper dark."""

from __future__ import annotations

NIGHT = {
    "#ffffff": "#1b1e24",
    "#222222": "#e4e6ea",
    "#000000": "#e4e6ea",
    "#5f5f5f": "#a9afb8",
    "#e2e2e2": "#343941",
    "#e9e9e9": "#2f343c",
    "#7a7a7a": "#9aa0a8",
    "#0072b2": "#3389d6",
    "#56b4e9": "#9ad6f7",
}
"""Ink, lines and paper by day and by night. Of the palette's colors all but its blues stand out on both, and the two
blues stay apart."""


def with_night(svg: bytes) -> bytes:
    """The figure with a style sheet that reads `NIGHT` where the page that shows it is dark.

    matplotlib writes every color into an element's own style, which only an important rule can overrule.
    """
    rules = ["svg{fill:#e4e6ea}"]  # text in plain black has no fill of its own
    for day, night in NIGHT.items():
        rules += [f'[style*="{kind}: {day}"]{{{kind}:{night}!important}}' for kind in ("fill", "stroke")]
    style = f"<style>@media (prefers-color-scheme:dark){{{''.join(rules)}}}</style>".encode()
    head, opened, rest = svg.partition(b"<defs>")
    return head + style + opened + rest
