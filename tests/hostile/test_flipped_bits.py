"""One flipped bit in a store or in a run folder is never taken silently."""

import json

import pytest

from judgebench.attacks.attack import read_phrase
from judgebench.results.folder import RunFolder
from judgebench.runtime.files import check_run_file
from judgebench.words.errors import UserError
from tests.hostile.flips import SILENT, campaign, made_run


def test_flips_are_read_anew_or_refused(tmp_path):
    outcomes = campaign(tmp_path, 60, 30, 20)
    assert [counts.total() for counts in outcomes.values()] == [60, 30, 20]
    assert [counts[SILENT] for counts in outcomes.values()] == [0, 0, 0]


def test_a_run_folder_without_digests_is_read_unchecked(tmp_path):
    folder = made_run(tmp_path)
    (tmp_path / "metrics.json").write_text("[]")
    with pytest.raises(UserError, match=r"metrics.json: cannot be read \(it has changed since the run wrote it.*again"):
        folder.read("metrics")
    (tmp_path / "digests.json").unlink()  # as an earlier version left it
    assert RunFolder.open(tmp_path).read("metrics") == []


def test_what_a_run_has_learned_is_checked_where_another_run_takes_it(tmp_path):
    folder = made_run(tmp_path / "run")
    path = folder.write_json("attack/phrase.json", {"phrase": "superb"})
    folder.write("detectors", [{"defense": "perplexity"}])
    folder.write_digests()
    assert read_phrase(path, "attacks: phrase_file")["phrase"] == "superb"
    path.write_text(path.read_text().replace("superb", "suberb"))
    with pytest.raises(UserError, match=r"^attacks: phrase_file: .*phrase.json cannot be read \(it has changed since"):
        read_phrase(path, "attacks: phrase_file")
    path.rename(tmp_path / "mine.json")  # whoever changes it on purpose
    assert read_phrase(tmp_path / "mine.json", "attacks: phrase_file")["phrase"] == "suberb"
    detectors = folder.path / "defense" / "detectors.json"
    detectors.write_text("[]")
    with pytest.raises(
        UserError, match=r"^defenses: perplexity.detectors: .*detectors.json cannot be read \(it has changed since"
    ):
        check_run_file(detectors, "defenses: perplexity.detectors")


@pytest.mark.parametrize("content", ["", "[]", '{"sha256": []}', '{"sha256": {"metrics.json": 1}}', "[" * 100_000])
def test_damaged_digests_are_a_sentence(tmp_path, content):
    folder = made_run(tmp_path)
    (tmp_path / "digests.json").write_text(content)
    with pytest.raises(UserError, match=r"metrics.json: cannot be read \(.*digests.json is damaged; restore it"):
        folder.read("metrics")


def test_a_report_made_anew_has_its_digest(tmp_path):
    folder = made_run(tmp_path)
    before = json.loads((tmp_path / "digests.json").read_text())["sha256"]
    folder.write_digests([folder.write_file("report.html", "<html>")])
    after = json.loads((tmp_path / "digests.json").read_text())["sha256"]
    assert set(after) - set(before) == {"report.html"}
    (tmp_path / "digests.json").unlink()
    folder.write_digests([folder.write_file("report.html", "<html>")])
    assert not (tmp_path / "digests.json").exists()
