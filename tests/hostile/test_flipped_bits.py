"""One flipped bit in a store or in a run folder is never taken silently."""

import pytest

from judgebench.errors import UserError
from judgebench.report.run_folder import RunFolder
from tests.hostile.flips import SILENT, campaign, made_run


def test_flips_are_read_anew_or_refused(tmp_path):
    stores, runs = campaign(tmp_path, 60, 30)
    assert (stores.total(), runs.total()) == (60, 30)
    assert (stores[SILENT], runs[SILENT]) == (0, 0)


def test_a_run_folder_without_digests_is_read_unchecked(tmp_path):
    folder = made_run(tmp_path)
    (tmp_path / "metrics.json").write_text("[]")
    with pytest.raises(UserError, match=r"metrics.json: cannot be read \(it has changed since the run wrote it.*again"):
        folder.metrics()
    (tmp_path / "digests.json").unlink()  # as an earlier version left it
    assert RunFolder.open(tmp_path).metrics() == []
