"""The step functions that figures draw are what the run folder's readings and scores say."""

import numpy as np
import pandas as pd
import pytest

from judgebench.decoding.scores import decode
from judgebench.readings.table import reading_columns
from judgebench.tuning import Dev, curves, tune
from tests.tuning.test_tune import ARGMAX, DECODINGS, by_hand, readings_of


def test_a_curve_is_spearman_at_every_kappa():
    readings = readings_of(("coherence", "relevance"), attacks=("none", "bed"))
    frame, scores = pd.DataFrame(reading_columns(readings)), pd.DataFrame(decode(readings, ARGMAX))
    for record in tune(readings, DECODINGS, Dev()).records:
        found = curves(frame, scores, record)
        if record["rule"] == "expectation":
            assert found == {}
            continue
        assert set(found) == {"dev", "test"}
        clean = [r for r in readings if r.prompt.condition.attack == "none"]
        score_range = next(
            r.prompt.condition.range for r in readings if r.prompt.condition.range.minimum == record["range_min"]
        )
        for split, curve in found.items():
            assert curve.start[0] == 0
            assert (np.diff(curve.value) != 0).all()
            for kappa in np.geomspace(1e-3, 50, 40):
                value = curve.value[np.searchsorted(curve.start, kappa, side="right") - 1]
                assert value == pytest.approx(by_hand(clean, record["dimension"], score_range, split, kappa), abs=1e-12)
        assert found["dev"].value.max() == pytest.approx(record["exact"]["dev"], abs=1e-12)
