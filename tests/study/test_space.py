"""The override syntax, against Hydra's own reading of it."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from judgebench.study.space import Space
from judgebench.words.errors import UserError

MEANT = {
    "a,b": CategoricalDistribution(("a", "b")),
    "choice(2, 2.5, true)": CategoricalDistribution((2, 2.5, True)),
    "null,7": CategoricalDistribution(("null", 7)),
    "0.01,0.1,0.5,1": CategoricalDistribution((0.01, 0.1, 0.5, 1)),
    "choice([1,2],[3,4])": CategoricalDistribution(("[1,2]", "[3,4]")),
    "shuffle(a,b)": CategoricalDistribution(("a", "b")),
    "shuffle(range(1,3))": CategoricalDistribution((1, 2)),
    "range(1,10,step=2)": IntDistribution(1, 9, step=2),
    "range(3)": IntDistribution(0, 2),
    "range(5,1,-2)": IntDistribution(3, 5, step=2),
    "range(0.1,0.4,step=0.1)": FloatDistribution(0.1, 0.3, step=0.1),
    "interval(0.0, 1.0)": FloatDistribution(0.0, 1.0),
    "interval(1, 5)": FloatDistribution(1.0, 5.0),
    "int(interval(1.0, 5.0))": IntDistribution(1, 5),
    "tag(log, int(interval(1, 100)))": IntDistribution(1, 100, log=True),
    "tag(log, interval(0.01, 1.0))": FloatDistribution(0.01, 1.0, log=True),
}


@pytest.mark.parametrize("text", MEANT)
def test_what_each_form_means(text):
    assert Space.parse({"x": text}).params["x"].distribution == MEANT[text]
    assert Space.parse({}, [f"x={text}"]).params["x"].distribution == MEANT[text]


WRONG = {
    "range(3,3)": "empty",
    "range(0,1,step=0)": "step",
    "interval(2,1)": "below",
    "interval(1,1)": "below",
    "tag(log, interval(0, 1))": "above 0",
    "tag(log, range(1, 5))": "only interval",
    "tag(normal, interval(0, 1))": "only tag is log",
    "1,2,1": "names one twice",
    "choice(": "no override",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_swept_is_told(text):
    with pytest.raises(UserError, match=WRONG[text]):
        Space.parse({"x": text})


def test_the_command_line_wins_over_the_configuration():
    space = Space.parse({"x": "1,2", "y": "1,2", "z": 5}, ["x=7", "~a", "z=3,4"])
    assert set(space.params) == {"y", "z"}
    assert space.fixed == ("x=7", "~a")


@pytest.mark.parametrize("text", ["choice('a b', c)", r"a\,b,c", "'1','2'", "null,1", "{a:1},{a:2}", "true,false"])
def test_choices_arrive_as_hydra_reads_them(text):
    """The override of each point, parsed again, has the value that Hydra's own sweeper would give it."""
    parser = OverridesParser.create()
    space = Space.parse({"x": text})
    expected = [
        parser.parse_override(f"x={one}").value() for one in parser.parse_override(f"x={text}").sweep_string_iterator()
    ]
    found = [parser.parse_override(space.overrides(point)[0]).value() for point in space.grid().values()]
    assert found == expected


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-7, 7).filter(bool))
def test_ranges_of_whole_numbers_are_pythons(start, stop, step):
    expected = list(range(start, stop, step))
    text = f"range({start},{stop},step={step})"
    if not expected:
        with pytest.raises(UserError, match="empty"):
            Space.parse({"x": text})
        return
    space = Space.parse({"x": text})
    assert [point["x"] for point in space.grid().values()] == expected
    assert all(space.params["x"].distribution._contains(value) for value in expected)


@given(st.integers(-30, 30), st.integers(1, 40), st.sampled_from(["0.1", "0.25", "0.5", "0.01"]))
def test_ranges_of_decimal_fractions_have_no_binary_tail(first, count, step):
    from decimal import Decimal

    exact = [Decimal(first) + Decimal(step) * i for i in range(count)]
    stop = exact[-1] + Decimal(step)
    space = Space.parse({"x": f"range({first}.0,{stop},step={step})"})
    texts = [space.overrides(point)[0] for point in space.grid().values()]
    assert [Decimal(text.removeprefix("x=")) for text in texts] == exact
    distribution = space.params["x"].distribution
    for value in exact:
        assert distribution._contains(float(value))


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.booleans())
def test_intervals_keep_their_ends(one, other, logarithmic):
    low, high = sorted((one, other))
    if low == high:
        return
    text = f"interval({low!r}, {high!r})"
    space = Space.parse({"x": f"tag(log, {text})" if logarithmic else text})
    assert space.params["x"].distribution == FloatDistribution(low, high, log=logarithmic)


@given(st.floats(-1e9, 1e9, allow_nan=False))
def test_a_drawn_number_survives_its_override(value):
    space = Space.parse({"x": "interval(-1e9, 1e9)"})
    parsed = OverridesParser.create().parse_override(space.overrides({"x": value})[0]).value()
    assert parsed == value
