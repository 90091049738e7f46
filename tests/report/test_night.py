"""Figures on a dark page: the same drawing under other colors."""

import re
from xml.etree import ElementTree

import numpy as np
from matplotlib.colors import to_rgb

from judgebench.report.figures.scores import correlation_figure
from judgebench.report.figures.style import _DEFENSES, _FIXED, _FREE, INK, MUTED, NIGHT, svg_without_caption, with_night
from judgebench.report.figures.tuning import HeatMap, heat_map_figure

PAPER = NIGHT["#ffffff"]


def luminance(color):
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    """WCAG 2's ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_ink_can_be_read_and_lines_be_seen_by_day_and_by_night():
    for color, least in ((INK, 7.0), (MUTED, 4.5)):
        assert contrast(color, "#ffffff") >= least
        assert contrast(NIGHT[color], PAPER) >= least
    for mark in (*_FIXED.values(), *_FREE, *_DEFENSES):
        color = mark.color.lower()
        assert contrast(NIGHT.get(color, color), PAPER) >= 3.0, color


def test_the_drawing_stays_as_it_was(run):
    svg = svg_without_caption(correlation_figure(run.records, run.titles))
    night = with_night(svg)
    assert re.sub(rb"<style>@media \(prefers-color-scheme:dark\).*?</style>", b"", night) == svg
    assert ElementTree.fromstring(night).tag.endswith("svg")
    for kind, color in (("stroke", "#222222"), ("fill", "#ffffff")):
        assert f'[style*="{kind}: {color}"]{{{kind}:{NIGHT[color]}!important}}' in night.decode()


def test_numbers_in_a_heat_map_keep_their_colors_for_its_cells_do():
    figure = heat_map_figure([HeatMap("x", [1.0], [1.0, 2.0], np.array([[0.1, 0.9]]))], ("a", "b"), "t", "c")
    used = {text.get_color() for axis in figure.axes for text in axis.texts}
    assert len(used) == 2
    assert not used & {*NIGHT, "white", "black"}
