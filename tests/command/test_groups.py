"""What --help says is what conf/ holds."""

import re
import subprocess
import sys

from judgebench.config.choices import FOLDER, choice_sentences


def test_every_experiment_and_sweep_has_a_sentence_of_its_own():
    for group in ("exp", "sweeps"):
        found = choice_sentences(group)
        assert set(found) == {
            str(p.relative_to(FOLDER / group).with_suffix("")) for p in (FOLDER / group).rglob("*.yaml")
        }
        for name, sentence in found.items():
            assert re.fullmatch(r".{20,300}[.?]", sentence), (name, sentence)
        assert len(set(found.values())) == len(found)


def test_help_lists_experiments_sweeps_and_groups():
    done = subprocess.run([sys.executable, "-m", "judgebench", "--help"], capture_output=True, text=True, check=True)
    words = " ".join(done.stdout.split())
    for group in ("exp", "sweeps"):
        for name, sentence in choice_sentences(group).items():
            assert f"{name} {sentence}" in words
    assert re.search(r"\bjudge: \w+, ", words)
    assert "${" not in done.stdout
