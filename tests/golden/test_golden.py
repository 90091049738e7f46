"""What the frozen experiments write and show stays as it is frozen in `expected/`; `regenerate` makes that anew."""

import pytest

from tests.golden.experiments import EXPERIMENTS
from tests.golden.regenerate import EXPECTED, run
from tests.golden.snapshot import differences, same


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_as_it_was_frozen_and_reuses_a_store_of_commit_acb74e1_whole(name, tmp_path):
    ran = run(name, tmp_path)
    assert not ran.added
    if name in ("mini", "cap_demo", "pairwise"):
        assert ran.environment["device"] == "none: every reading was in the store"
    if name == "served":
        assert [ran.environment["served"][role]["requests"] for role in ("main", "assistant")] == [0, 0]
    place = EXPECTED / name
    frozen = {str(path.relative_to(place)): path.read_text("utf-8") for path in place.rglob("*") if path.is_file()}
    assert set(ran.files) == set(frozen)
    lines = [
        f"{file} {line}" for file in sorted(frozen) for line in differences(file, frozen[file], ran.files[file])[:20]
    ]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


def test_numbers_are_the_same_but_for_rounding_and_all_else_to_the_letter():
    assert same("[0.1, 2.0, -3e-17]", "[0.10000000000000001, 2, 0.0]")
    for one, other in (("0.1", "0.1001"), ("a 1", "b 1"), ("1 2", "1  2"), ("[1]", '["1"]'), ("1", "-1")):
        assert not same(one, other)
    assert differences("a.json", '{"a": [1,\n 2], "b": 0}', '{"b": 0, "a": [1, 2]}') == []
    assert differences("a.txt", "a\n1.0", "a\n1.1") == ["line 2:\n  was 1.0\n  is  1.1"]
