"""Files of texts scored shard by shard: rows equal to those of one shard, a scoring that was killed goes on, mistakes
name what is wrong before and behind what was scored."""

import gc
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from judgebench.cards import Judge, JudgeCard, scoring
from judgebench.cards.card import Errors, EstimateMap
from judgebench.command.score import main
from judgebench.data.shards import Texts
from judgebench.runtime.parquet import read_table
from judgebench.types import ScoreRange
from judgebench.words.errors import UserError
from tests.cards.test_card import DECISION, PARTS, card
from tests.conftest import write_rows

COUNT = 60
COMMAND = ("card=card.yaml", "data.path=texts.jsonl", "+judge.path=answers.jsonl")


def rows_of(count: int) -> list[dict]:
    """Articles of three texts; in every eleventh of them the last text stands apart, at the end of the file."""
    rows = [
        {"example_id": f"t{i}", "group_id": f"a{i // 3}", "source": f"Article {i // 3}.", "output": f"Text {i}."}
        for i in range(count)
    ]
    return sorted(rows, key=lambda row: int(row["example_id"][1:]) % 33 == 2)


def parts() -> dict:
    judge = {"_target_": "judgebench.judges.precomputed.replay.ReplaySpec", "path": "answers.jsonl"}
    judge |= {"fields": {"example_id": "example_id", "text": "text"}}
    return {**PARTS, "judge": judge, "prompt": {**PARTS["prompt"], "truncate": "error", "template_options": None}}


def local(path: Path) -> dict:
    judge = {"_target_": "judgebench.judges.spec.JudgeSpec", "path": str(path)}
    return {"judge": judge, "decoding": {"greedy": {"_target_": "judgebench.decoding.Expectation"}}}


@pytest.fixture
def score(monkeypatch, tmp_path, called):
    """`python -m judgebench score` with a replay's card in a folder with texts: arguments -> (code, out, err)."""
    monkeypatch.chdir(tmp_path)
    JudgeCard(**{**vars(card()), "parts": parts(), "range": ScoreRange(1, 5)}).write(Path("card.yaml"))
    write_rows("texts.jsonl", rows_of(COUNT))
    write_rows("answers.jsonl", [{"example_id": f"t{i}", "text": str(1 + i % 5)} for i in reversed(range(COUNT))])
    return partial(called, main, *COMMAND, mistaken=True)


def lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def test_rows_are_those_of_one_shard_in_every_kind_of_file(score):
    for out in ("one.jsonl", "one.csv", "one.parquet"):
        assert score(f"out={out}")[0] == 0
    one = pd.read_json("one.jsonl", lines=True)
    assert one["example_id"].tolist() == [row["example_id"] for row in rows_of(COUNT)], "in the order of the texts"
    assert one["score"].tolist() == [1 + int(name[1:]) % 5 for name in one["example_id"]]
    for out in ("many.jsonl", "many.csv"):
        assert score(f"out={out}", "shard=7")[0] == 0
        assert lines(out) == lines(out.replace("many", "one"))
    score("out=many.parquet", "shard=7")
    assert read_table(Path("many.parquet")).equals(read_table(Path("one.parquet")))
    code, out, _ = score("out=folder", "shard=7")
    assert (code, out.splitlines()[-1]) == (0, "folder")
    pd.testing.assert_frame_equal(pd.read_parquet("folder"), pd.read_parquet("one.parquet"))
    sizes = [read_table(part).num_rows for part in sorted(Path("folder").glob("part-*"))]
    assert sizes == [8, 9, 9, 8, 9, 9, 7, 1], "articles stay whole"
    assert not [name for name in os.listdir() if name.startswith(".")], "nothing is left behind"


@pytest.mark.parametrize(
    ("verdict", "spread", "means", "single"),
    [
        ("yes", 0.1, "yes", "yes; 0 % of"),
        ("with care", 9.0, "with care", "no; 100 % of"),
        ("with care", (7.0, -2.0), "with care", "with care, but for those that are flagged wide; 40 % of"),
        ("no", 0.1, "no", "no; 0 % of"),
        (None, 0.1, "unknown", "unknown; 0 % of"),
    ],
)
def test_one_sentence_says_what_scores_serve_for_by_verdict_and_widths(score, verdict, spread, means, single):
    uses = [{"use": "report_scores", "verdict": verdict, "clause": "off by 0.80"}] if verdict else []
    size, slope = spread if isinstance(spread, tuple) else (spread, 0.0)
    errors = Errors((size, slope, 0.01), (1.0,) * 20, tuple(range(20)))
    made = {"intervals": errors, "uses": uses, "parts": parts(), "range": ScoreRange(1, 5)}
    made["estimate"] = EstimateMap("linear", (1.0, 5.0), (1.0, 5.0))
    JudgeCard(**{**vars(card()), **made}).write(Path("card.yaml"))
    out = " ".join(score("out=scores.jsonl")[1].split())
    sentence = (
        f"Means of many texts: {means}. Single texts: {single} their 90 % intervals are wider than 50 % of the scale."
    )
    assert out.count(sentence) == 1
    assert "too wide to use" not in out


def test_a_card_that_decides_says_pass_fail_or_ask(score):
    """Answers are 1 to 5 in turn, and one that is none."""
    answers = [{"example_id": f"t{i}", "text": "no idea" if i == 4 else str(1 + i % 5)} for i in range(COUNT)]
    write_rows("answers.jsonl", answers)
    score("out=graded.jsonl")
    assert pd.read_json("graded.jsonl", lines=True)["decision"].isna().all(), "of a card that does not decide"
    decision = DECISION | {"fail_to": 2.0, "pass_from": 4.0}
    uses = [{"use": "decide", "verdict": "with care", "clause": "because", "value": None}]
    bare = vars(JudgeCard.read("card.yaml"))
    JudgeCard(**{**bare, "decision": decision, "uses": uses}).write(Path("card.yaml"))
    for out in ("scores.jsonl", "scores.csv", "scores.parquet"):
        assert "23 pass, 24 fail; 12 texts for a person to see." in score(f"out={out}", "shard=9")[1]
    rows = [json.loads(line) for line in lines("scores.jsonl")]
    said = {row["score"]: row["decision"] for row in rows}
    assert said == {1: "fail", 2: "fail", 3: "ask", 4: "pass", 5: "pass", None: None}
    expected = [row["decision"] for row in rows]
    assert read_table(Path("scores.parquet"))["decision"].to_pylist() == expected
    assert pd.read_csv("scores.csv", keep_default_na=False)["decision"].tolist() == [name or "" for name in expected]


@pytest.mark.parametrize(
    ("verdict", "fail_to", "forced", "why"),
    [
        ("no", 2.0, "23 pass, 24 fail; 12 texts", "The judge of this card may not decide (decide: no): "),
        ("yes", None, "35 pass, 24 fail; 0 texts", "This card has no band of scores that it may decide: "),
    ],
)
def test_a_card_that_may_not_decide_says_so_first_and_asks_but_by_force(score, verdict, fail_to, forced, why):
    answers = [{"example_id": f"t{i}", "text": "no idea" if i == 4 else str(1 + i % 5)} for i in range(COUNT)]
    write_rows("answers.jsonl", answers)
    decision = DECISION | {"fail_to": fail_to, "pass_from": fail_to and 4.0, "pass_mark": 3.0}
    uses = [{"use": "decide", "verdict": verdict, "clause": "because", "value": None}]
    bare = vars(JudgeCard.read("card.yaml"))
    JudgeCard(**{**bare, "decision": decision, "uses": uses}).write(Path("card.yaml"))
    out = " ".join(score("out=asked.jsonl")[1].split())
    assert out.startswith(f"{why}every text is for a person to see, unless force=true is given."), out
    assert "0 pass, 0 fail; 59 texts for a person to see." in out
    assert {json.loads(line)["decision"] for line in lines("asked.jsonl")} == {"ask", None}
    out = " ".join(score("out=forced.jsonl", "force=true")[1].split())
    assert f"{why}by force=true its marks decide all the same." in out
    assert f"{forced} for a person to see." in out
    assert "force: 'perhaps' is neither true nor false" in score("out=forced.jsonl", "force=perhaps")[2]


def test_every_kind_of_input_is_read(score):
    table = pa.Table.from_pylist(rows_of(COUNT))
    os.mkdir("parts")
    for i in range(3):
        pq.write_table(table.slice(i * 20, 20), f"parts/{i}.parquet", row_group_size=7)
    table.to_pandas().to_csv("texts.csv", index=False)
    score("out=expected.jsonl")
    for path in ("parts", "parts/*.parquet", "texts.csv"):
        code, _, err = score(f"data.path={path}", "out=read.jsonl", "shard=10")
        assert (code, lines("read.jsonl")) == (0, lines("expected.jsonl")), err
    assert "no file of rows is there" in score("data.path=nothing/*.parquet")[2]
    assert "an address is no file; copy the files" in score("data.path=s3://bucket/texts.jsonl")[2]


def test_a_killed_scoring_goes_on_and_a_damaged_shard_is_scored_again(score):
    command = [sys.executable, "-m", "judgebench", "score", *COMMAND, "out=scores", "shard=1"]
    score("out=expected", "shard=1")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while len(list(Path("scores").glob("part-*"))) < 3 and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {part.name: part.stat().st_mtime_ns for part in sorted(Path("scores").glob("part-*"))}
    if process.returncode == -signal.SIGKILL:
        assert 3 <= len(kept) < 20
    data = bytearray(Path("scores/part-000001.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    Path("scores/part-000001.parquet").write_bytes(data)
    assert score("out=scores", "shard=1")[0] == 0
    pd.testing.assert_frame_equal(pd.read_parquet("scores"), pd.read_parquet("expected"))
    again = {name for name, at in kept.items() if Path("scores", name).stat().st_mtime_ns != at}
    assert again == {"part-000001.parquet"}


def test_another_card_setting_or_input_in_the_same_folder_is_named(score):
    def refused(*arguments: str) -> str:
        code, _, err = score("out=scores", *arguments)
        assert code == 2
        return " ".join(err.split())

    score("out=scores", "shard=9")
    assert "differs in coverage, shard;" in refused("coverage=0.8")
    JudgeCard(**{**vars(JudgeCard.read("card.yaml")), "limits": ["Another."]}).write(Path("other.yaml"))
    assert "differs in card;" in refused("shard=9", "card=other.yaml")
    rows = rows_of(COUNT)
    write_rows("texts.jsonl", [*rows[:-1], {**rows[-1], "output": "Changed."}])
    assert "differs in data.path (the texts of part-000006.parquet)" in refused("shard=9")
    write_rows("texts.jsonl", rows[:27])
    assert "differs in data.path (there were more texts)" in refused("shard=9")
    write_rows("answers.jsonl", [{"example_id": "t0", "text": "1"}])
    assert "differs in answers (judge.path)" in refused("shard=9")
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("")
    assert "notes.txt, which is no scoring's" in " ".join(score("out=mine")[2].split())


def test_mistakes_are_found_before_the_first_reading(score):
    rows = rows_of(COUNT)
    for wrong, sentence in (
        ({**rows[50], "output": " "}, "texts.jsonl line 51, example 't52': the judged text is empty"),
        ({**rows[50], "example_id": "t0"}, "line 51, example 't0': this example_id is taken by texts.jsonl line 1"),
        ({**rows[50], "group_id": "a0"}, "group 'a0' has another source or context here than for texts.jsonl line 1"),
        ({"output": "a"}, "texts.jsonl line 51: field 'source' is missing"),
    ):
        write_rows("texts.jsonl", [*rows[:50], wrong, *rows[51:]])
        code, _, err = score("out=scores", "shard=5")
        assert (code, sentence in " ".join(err.split()), Path("scores").exists()) == (2, True, False), err


def test_a_mistake_behind_scored_shards_keeps_them_and_says_how_to_go_on(score, tiny_pair, called):
    """As a text too long for the model: mended, the command goes on, and the rows are those of one shard."""
    of = {**vars(JudgeCard.read("card.yaml")), "parts": {**parts(), **local(tiny_pair[0])}}
    JudgeCard(**of).write(Path("l.yaml"))
    command = ("card=l.yaml", "data.path=texts.jsonl", "check_models=false", "shard=10", "+judge.dtype=float32")
    rows = rows_of(COUNT)
    write_rows("texts.jsonl", [*rows[:40], {**rows[40], "output": "Long. " * 9000}, *rows[41:]])
    code, _, err = called(main, *command, "out=scores.jsonl", mistaken=True)
    said = " ".join(err.split())
    assert (code, Path("scores.jsonl").exists()) == (2, False), said
    assert f"The prompt of example {rows[40]['example_id']} " in said
    kept = len(pd.concat(map(pd.read_parquet, Path(".scores.jsonl.parts").glob("part-*"))))
    assert 30 <= kept <= 40
    assert f"The scores of {kept} texts are kept in .scores.jsonl.parts; once that is mended, `python -m judge" in said
    kept = Path(".scores.jsonl.parts/part-000000.parquet").stat().st_mtime_ns
    write_rows("texts.jsonl", rows)
    assert called(main, *command, "out=scores", mistaken=True)[0] == 0
    os.rename("scores", "whole")
    os.rename(".scores.jsonl.parts", "scores")
    assert called(main, *command, "out=scores", mistaken=True)[0] == 0
    assert Path("scores/part-000000.parquet").stat().st_mtime_ns == kept
    pd.testing.assert_frame_equal(pd.read_parquet("scores"), pd.read_parquet("whole"))
    one = Judge.from_card("l.yaml", check_models=False, judge={"dtype": "float32"}).frame(rows)
    np.testing.assert_allclose(pd.read_parquet("whole")["score"], one["score"], atol=1e-5)


def test_the_next_shard_alone_is_planned_while_one_is_read_and_readings_stay(score, tiny_pair, called, monkeypatch):
    of = {**vars(JudgeCard.read("card.yaml")), "parts": {**parts(), **local(tiny_pair[0])}}
    JudgeCard(**of).write(Path("l.yaml"))
    steps, read_by, held = [], [], []
    planned = [threading.Event() for _ in range(4)]
    texts_of, write = Texts.shard, scoring._Parts.write

    class Held(list):  # as a list, with a word on when it is gone
        pass

    def shard(self, number):
        steps.append(f"planned {number}")
        read_by.append(threading.current_thread())
        gc.collect()
        held.append(sum(texts() is not None for texts in kept))
        texts = Held(texts_of(self, number))
        kept.append(weakref.ref(texts))
        planned[number].set()
        return texts

    kept: list[weakref.ref] = []

    def written(self, number, *given):
        assert number == 3 or planned[number + 1].wait(60), "while this one is read"
        steps.append(f"written {number}")
        return write(self, number, *given)

    monkeypatch.setattr(Texts, "shard", shard)
    monkeypatch.setattr(scoring._Parts, "write", written)
    command = ("card=l.yaml", "data.path=texts.jsonl", "check_models=false", "shard=15", "+judge.dtype=float32")
    assert called(main, *command, "out=scores", mistaken=True)[0] == 0
    assert steps == [
        *("planned 0", "planned 1", "written 0", "planned 2", "written 1", "planned 3", "written 2", "written 3")
    ]
    assert held == [0, 1, 1, 1], "beside the texts that are planned those that are read, and no others"
    assert len({*read_by}) == 1
    assert threading.main_thread() not in read_by
    judge = Judge.from_card("l.yaml", check_models=False, judge={"dtype": "float32"}, store="none")
    rows = rows_of(COUNT)
    for part in sorted(Path("scores").glob("part-*")):
        frame = pd.read_parquet(part)
        alone, rows = judge.frame(rows[: len(frame)]), rows[len(frame) :]
        assert alone["score"].tolist() == frame["score"].tolist(), "to the last bit"
    assert not rows


def test_what_is_planned_ahead_ends_with_the_scoring(score):
    texts = Texts("texts.jsonl", None, ["quality"], 15)
    judge = Judge.from_card("card.yaml", judge={"path": "answers.jsonl"})
    judge.in_shards()
    work = scoring.Scoring(None, scoring._Parts(Path("scores"), texts, {}), judge)
    work.stopped.set()
    with pytest.raises(CancelledError):
        next(work.here([0, 1], None))


def test_answers_are_looked_up_as_they_are_matched_whole(score):
    write_rows("answers.jsonl", [{"example_id": f"t{i}", "text": "no idea" if i % 7 else "4"} for i in range(0, 36, 2)])
    code, out, _ = score("out=whole.jsonl")
    assert (code, "18 texts scored" in out, "15 without a score" in out) == (0, True, True)
    _, out, _ = score("out=parts.jsonl", "shard=3")
    assert ("18 texts scored" in out, "15 without a score" in out) == (True, True)
    assert lines("parts.jsonl") == lines("whole.jsonl")
    write_rows("answers.jsonl", [{"example_id": "other", "text": "4"}])
    assert "there is no answer about any of the texts" in " ".join(score("out=none.jsonl", "shard=3")[2].split())


def test_a_dry_run_is_of_the_first_shard_and_says_so(score):
    _, out, _ = score("dry_run=true", "shard=9", "out=dry")
    assert "the first 11 of 60 texts; if the others are like them, all take 5.45 times" in " ".join(out.split())
    assert not Path("dry").exists()


def test_groups_longer_than_some_shards_are_cut_and_limits_keep_whole_groups(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rows("texts.jsonl", [{"source": "One.", "output": f"Text {i}."} for i in range(25)])
    texts = Texts("texts.jsonl", None, ["quality"], 3)
    assert (texts.sizes, texts.cut) == ([12, 12, 1], 2)
    write_rows("texts.jsonl", rows_of(COUNT))
    texts = Texts("texts.jsonl", None, ["quality"], 5, limit_groups=2)
    assert [text.example_id for text in texts.shard(0)] == ["t0", "t1", "t3", "t4", "t5"]
    assert [text.example_id for text in texts.shard(1)] == ["t2"]
    write_rows("texts.jsonl", rows_of(COUNT)[::-1])
    with pytest.raises(UserError, match="have changed while they were read"):
        texts.shard(0)


def digests(rows: list[dict]) -> list[str]:
    write_rows("texts.jsonl", rows)
    return Texts("texts.jsonl", None, ["quality"], 100).digests


def test_a_digest_knows_where_a_field_ends_and_is_that_of_earlier_versions_where_it_can_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = {"example_id": "a", "group_id": "g", "system_id": "s", "source": "One.", "output": "Two."}
    earlier = "".join(
        "\0".join((*[row[name] for name in row], "", "\1")) for row in ({**row}, {**row, "example_id": "b"})
    )
    whole = [row, {**row, "example_id": "b"}]
    assert digests(whole) == [hashlib.blake2b(earlier.encode(), digest_size=16).hexdigest()]
    # fields whose ends are moved over a NUL, and rows of which one says what two say
    moved = [{**row, "source": "One.\0Two", "output": "Three"}, {**row, "source": "One.", "output": "Two\0Three"}]
    assert len({*map(str, (digests([each]) for each in moved))}) == 2
    joined = {**row, "output": "Two.\0\0\1b\0g\0s\0One.\0Two."}
    assert digests([joined]) != digests(whole)


def test_rows_of_files_in_folders_of_one_name_are_told_apart(score):
    for folder, first in (("x", 0), ("y", 30)):
        os.makedirs(f"all/{folder}/p")
        write_rows(
            f"all/{folder}/p/a.jsonl", [{**row, "example_id": None} for row in rows_of(COUNT)[first : first + 30]]
        )
    texts = Texts("all", None, ["quality"], 100)
    names = [text.example_id for text in texts.shard(0)]
    assert len(set(names)) == COUNT
    assert names[0] == "x/p/a.jsonl/line-1"


def test_a_text_that_would_fill_the_memory_is_refused_before_anything_is_made_of_it(score):
    rows = rows_of(COUNT)
    write_rows("texts.jsonl", [*rows[:2], {**rows[2], "output": "a" * 10_000_001}])
    code, _, err = score("out=long.jsonl")
    said = " ".join(err.split())
    assert (code, Path("long.jsonl").exists()) == (2, False)
    assert "texts.jsonl line 3" in said
    assert "a text has 10,000,001 characters, and data.longest=10000000 allows no more than 10,000,000" in said
    assert score("out=long.jsonl", "data.longest=20000000")[0] == 0
    assert "data.longest: 0 should be greater" in score("out=long.jsonl", "data.longest=0")[2]
