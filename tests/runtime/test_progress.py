"""Progress where there is no terminal: a line every thirty seconds, with what is left of time and money."""

from judgebench.runtime import progress
from judgebench.runtime.progress import Progressing


def test_a_plain_line_every_thirty_seconds_says_readings_time_and_dollars(capsys, monkeypatch):
    clock = iter([0.0, 10.0, 40.0, 50.0, 80.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with Progressing("Asking gpt", 1000) as bar:
        for number in range(4):
            bar.advance(100, 0.01 * (number + 1))
    assert capsys.readouterr().out.splitlines() == [
        "Asking gpt: 200 of 1,000 readings, 2 min 40 s left, $0.02 of about $0.1",
        "Asking gpt: 400 of 1,000 readings, 2 min 0 s left, $0.04 of about $0.1",
    ]


def test_a_bar_that_is_not_shown_prints_nothing(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with Progressing("Reading", 2, shown=False) as bar:
        bar.advance(1)
    assert capsys.readouterr().out == ""
