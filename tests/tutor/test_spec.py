from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from judgebench.runtime.errors import UserError
from judgebench.tutor.spec import Sizes, TutorSpec

CONF = Path(__file__).resolve().parents[2] / "conf"
FILES = sorted(path.stem for path in (CONF / "tutor").glob("*.yaml") if path.stem not in ("base", "none"))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("data", "longest"), [("mini", 128), ("topicalchat", 64)])
def test_every_file_makes_a_tutor_of_the_papers_lengths(name, data, longest):
    named = ["tutor.path=x"] if name == "local" else []
    with initialize_config_dir(str(CONF), version_base="1.3"):
        spec = instantiate(compose("config", [f"tutor={name}", f"data={data}", *named]).tutor)
    assert isinstance(spec, TutorSpec)
    assert spec.most_tokens == longest
    assert (spec.low_percentile, spec.high_percentile) == (20, 80)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"candidates": 0, "alpha_low": -2}, r"tutor.candidates: 0 should .*\ntutor.alpha_low: -2 should "),
        ({"alpha_high": None}, "tutor.alpha_high"),
        ({"low_percentile": 80}, "tutor.low_percentile: 80 must lie below tutor.high_percentile=80"),
        ({"dtype": "int8"}, "tutor.dtype: 'int8'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, said):
    with pytest.raises(UserError, match=said):
        _ = TutorSpec("owner/name", **settings).source


def test_prompts_of_ones_own_need_a_length():
    with pytest.raises(UserError, match=r"tutor\.max_new_tokens: there is no usual length for tutor.prompts=mine"):
        _ = TutorSpec("owner/name", prompts="mine").most_tokens
    assert TutorSpec("owner/name", prompts="mine", max_new_tokens=9).most_tokens == 9


def test_sizes_are_the_models_and_texts_leave_room_for_prompts(tiny_pair, make_tutor):
    assert TutorSpec(str(tiny_pair[0])).sizes == Sizes(layers=4, hidden=32, most=4096)
    with pytest.raises(UserError, match=r"tutor\.max_new_tokens: texts of 4096 tokens leave no room .* 4096"):
        make_tutor(max_new_tokens=4096)
