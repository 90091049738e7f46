import numpy as np
import pytest

from judgebench.report.figures.attacks import assessment_figure, is_win_probability
from judgebench.studies.evaluate import evaluate
from tests.studies.test_evaluate import joined, table

TITLES = {"main": "Some-Judge", "groups": "articles"}
RULES = {"greedy": "argmax", "expectation": "expectation"}


def records(gain, low=1.0, high=5.0, attacks=("dsi", "bed"), resamples=40, dataset="mini", **cell):
    """metrics.json of a judge whose scores each attack raises by `gain` of the scale."""

    def clean(rng, n):
        return low + (high - low) * rng.uniform(0, 0.6, n)

    parts = [table(clean, clean, range_min=low, range_max=high, decoding="expectation", **cell)]
    for i, attack in enumerate(attacks):
        up = gain * (high - low) / (i + 1)
        parts.append(
            table(lambda r, n, up=up: clean(r, n) + up * r.uniform(0.5, 1.5, n), clean, range_min=low, range_max=high,
                  decoding="expectation", attack=attack, **cell)
        )  # fmt: skip
    return evaluate(joined(*parts), dataset, ["dataset", "document"], resamples=resamples, rules=RULES)


def told(found, attack):
    return next(r for r in found if r["attack"] == attack and r["level"] == "dataset")


def test_bars_are_those_of_both_sets_of_records():
    absolute, comparative = records(0.3), records(0.05, 0.0, 1.0)
    figure = assessment_figure(absolute, comparative, TITLES)
    for axis, found in zip(figure.axes[:2], (comparative, absolute), strict=True):
        heights = np.array([patch.get_height() for patch in axis.patches]).reshape(3, 2)
        for i, attack in enumerate(("dsi", "bed")):
            record = told(found, attack)
            expected = [record[name] for name in ("clean_mean_score", "attacked_mean_score", "change")]
            assert heights[:, i] == pytest.approx(expected)
        assert [text.get_text() for text in axis.get_xticklabels()] == ["dsi", "bed"]
        assert axis.get_title("right") == "n = 32"
    shares = [patch.get_height() for patch in figure.axes[2].patches]
    expected = [100 * told(comparative, attack)["change"] for attack in ("dsi", "bed")]
    expected += [100 * told(absolute, attack)["change"] / 4 for attack in ("dsi", "bed")]
    assert shares == pytest.approx(expected)
    assert "range 1-5" in figure.get_label()
    assert "95 % interval" in figure.get_label()
    assert len(figure.axes[0].containers) == 2 * 6  # each bar with its interval


def test_increases_compare_by_attack_even_where_one_lacks_it():
    figure = assessment_figure(records(0.3), records(0.05, 0.0, 1.0, attacks=("bed",)), TITLES)
    assert [text.get_text() for text in figure.axes[2].get_xticklabels()] == ["bed", "dsi"]
    comparative, first, second = (patch.get_x() for patch in figure.axes[2].patches)
    assert comparative < second < first  # bed beside bed, dsi beside nothing


def test_several_data_sets_stand_side_by_side_and_other_conditions_do_not():
    both = [*records(0.3), *records(0.2, dataset="other"), *records(0.9, defense="cap"), *records(0.9, split="dev")]
    figure = assessment_figure(both, records(0.05, 0.0, 1.0), TITLES)
    labels = [text.get_text() for text in figure.axes[1].get_xticklabels()]
    assert labels == ["mini, dsi", "mini, bed", "other, dsi", "other, bed"]


def test_without_both_there_is_no_figure_and_without_intervals_no_bars_of_them():
    absolute, comparative = records(0.3, resamples=0), records(0.05, 0.0, 1.0, resamples=0)
    assert assessment_figure(absolute, [], TITLES) is None
    assert assessment_figure([r for r in absolute if r["attack"] == "none"], comparative, TITLES) is None
    figure = assessment_figure(absolute, comparative, TITLES)
    assert "95 %" not in figure.get_label()
    assert len(figure.axes[0].containers) == 6


def test_probabilities_of_winning_are_told_by_their_range():
    assert all(map(is_win_probability, records(0.1, 0.0, 1.0)))
    assert not any(map(is_win_probability, records(0.1)))
