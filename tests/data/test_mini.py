from __future__ import annotations

from judgebench.data.benchmarks import Mini


def test_the_embedded_data_passes_every_check_and_splits() -> None:
    data = Mini()
    data.setup()
    assert data.name == "mini"
    assert data.dimensions == ("coherence", "consistency", "fluency", "relevance", "joint")
    assert data.scale == dict.fromkeys(data.dimensions, (1.0, 5.0))
    assert set(data.split.values()) == {"dev", "test"}


def test_it_takes_the_common_settings() -> None:
    data = Mini(limit_groups=2, dev_share=0.5, seed=3)
    data.setup()
    assert sorted(data.split.values()) == ["dev", "test"]
    assert {example.group_id for example in data.examples} == set(data.split)
