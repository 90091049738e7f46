import pickle
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

from judgebench.command.store import main
from judgebench.readings.reading import (
    ModelReading,
    check_shares,
    checksum,
    pack_readings,
    reading_key,
    unpack_readings,
)
from judgebench.readings.store import ReadingStore, SharedStore, open_store
from judgebench.runtime.distributed import Processes, process_group
from judgebench.runtime.files import on_network
from judgebench.types import Condition, Example, Prompt, ScoreRange
from judgebench.words.errors import UserError


def reading(key, value=0.5):
    return ModelReading(key, np.array([-value, -2 * value], np.float32), None, 0.1)


def test_what_is_put_is_got_bit_for_bit(tmp_path):
    store = ReadingStore(tmp_path / "deep" / "readings.sqlite")
    values = np.array([-0.1, -np.inf, -1e-30], np.float32)
    store.put([ModelReading("a", values, None, 0.25), ModelReading("b", None, "Score: 4", 0.5)])
    store.close()
    held = ReadingStore(tmp_path / "deep" / "readings.sqlite").get(["a", "b", "c"])
    assert held.keys() == {"a", "b"}
    assert held["a"].logprobs.tobytes() == values.tobytes()
    assert held["b"] == ModelReading("b", None, "Score: 4", 0.5)


def test_what_is_there_stays(tmp_path):
    store = ReadingStore(tmp_path / "s")
    store.put([reading("a", 1.0)])
    store.put([reading("a", 2.0), reading("b", 3.0)])
    assert store.get(["a"])["a"].logprobs[0] == -1.0
    assert store.missing(["a", "b", "c"]) == {"c"}
    keys = [f"{i:05d}" for i in range(3000)]
    store.put([reading(key) for key in keys[:2000]])
    assert store.missing(keys) == set(keys[2000:])
    assert len(store.get(keys)) == 2000


def test_a_batch_is_put_whole_or_not_at_all(tmp_path):
    store = ReadingStore(tmp_path / "s")
    broken = ModelReading("b", np.array([-1.0]), None, None)  # type: ignore[arg-type]
    with pytest.raises(sqlite3.IntegrityError):
        store.put([reading("a"), broken])
    assert store.missing(["a"]) == {"a"}
    store.put([reading("c")])
    assert store.missing(["c"]) == set()


def test_keys_tell_apart_whatever_matters():
    ids = np.array([1, 2, 3], np.int32)
    base = {"model": "a", "dtype": "float32", "mode": "score_tokens", "exit": None}
    keys = {reading_key(base, ids), reading_key(base, ids[:2])}
    keys |= {reading_key({**base, name: "other"}, ids) for name in base}
    assert len(keys) == 6
    assert reading_key(dict(reversed(base.items())), ids.astype(np.int64)) == reading_key(base, ids)


def test_what_is_no_store_of_this_format_is_refused_and_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("not a database, but long enough to look at: " * 50)
    with pytest.raises(UserError, match=r"store=.*notes\.txt: no store of readings can be opened there"):
        ReadingStore(tmp_path / "notes.txt")
    for version in (1, 99):
        rows(tmp_path / "other", f"PRAGMA user_version={version}")
        with pytest.raises(UserError, match=f"format {version}, and this version"):
            ReadingStore(tmp_path / "other")
    rows(tmp_path / "mail.sqlite", "CREATE TABLE mails (subject TEXT)")
    with pytest.raises(UserError, match="the database of another program"):
        ReadingStore(tmp_path / "mail.sqlite")
    with sqlite3.connect(tmp_path / "mail.sqlite") as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("mails",)]


def test_a_store_that_cannot_grow_is_told(tmp_path):
    store = ReadingStore(tmp_path / "s")
    store.put([reading("a")])
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count={pages}")  # SQLite then says that the disk is full
    with pytest.raises(UserError, match=r"store=.*cannot be written \(database or disk is full\)"):
        store.put([ModelReading(str(i), np.zeros(500, np.float32), None, 0.1) for i in range(100)])
    assert store.missing(["a", "1"]) == {"1"}


def test_file_digests_follow_the_content(tmp_path):
    store = ReadingStore(tmp_path / "s")
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    first = store.file_digest(file)
    assert first == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
    store._db.execute("UPDATE digests SET sha256 = replace(sha256, '7', '6')")  # a damaged one is computed again
    assert store.file_digest(file) == first
    assert store.file_digest(file) == first
    file.write_bytes(b"other")
    assert store.file_digest(file) != first


def test_a_proof_holds_for_its_facts_until_its_row_is_damaged(tmp_path):
    store = ReadingStore(tmp_path / "s")
    assert not store.proven("model A, torch 2")
    store.add_proof("model A, torch 2")
    assert store.proven("model A, torch 2")
    assert not store.proven("model A, torch 3")
    merged = ReadingStore(tmp_path / "merged")
    merged.remember(store)
    assert merged.proven("model A, torch 2")
    for damage in ("facts = 'model B, torch 2'", "checksum = checksum + 1", "checksum = NULL"):
        store._db.execute(f"UPDATE proofs SET {damage}")
        assert not store.proven("model A, torch 2")
        assert not store.proven("model B, torch 2")
        store._db.execute("DELETE FROM proofs WHERE facts = 'model B, torch 2'")
        store.add_proof("model A, torch 2")  # made anew
        assert store.proven("model A, torch 2")


def rows(path, statement, *values):
    with sqlite3.connect(path) as db:
        db.execute(statement, values)
    db.close()


@pytest.mark.parametrize(
    "change",
    [
        *("logprobs = x'0102030405'", "logprobs = zeroblob(8)", "logprobs = NULL"),
        *("text = '5'", "text = CAST(x'ff' AS TEXT)", "seconds = 0.2", "seconds = x'00'"),
        *("checksum = NULL", "checksum = checksum + 1"),
    ],
)
def test_a_reading_that_was_changed_is_missing_and_can_be_put_again(tmp_path, capsys, change):
    path = tmp_path / "r.sqlite"
    store = ReadingStore(path)
    store.put([reading("a"), reading("b", 1.5)])
    store.close()
    rows(path, f"UPDATE readings SET {change} WHERE key = 'a'")
    store = ReadingStore(path)
    assert store.missing(["a", "b"]) == {"a"}
    assert set(store.get(["a", "b"])) == {"b"}
    assert capsys.readouterr().err == (
        f"judgebench: store={path}: 1 of its readings do not match their checksums or cannot be read any more, as "
        "after a fault of the disk, or hold what no model says; they are read again.\n"
    )
    store.put([reading("a"), reading("b", 2.5)])
    held = store.get(["a", "b"])
    assert (held["a"].logprobs[0], held["b"].logprobs[0]) == (-0.5, -1.5)
    assert not capsys.readouterr().err
    # nor is one right that was moved to another key
    store._db.execute("DELETE FROM readings WHERE key = 'b'")
    store._db.execute("UPDATE readings SET key = 'b' WHERE key = 'a'")
    assert store.missing(["a", "b"]) == {"a", "b"}


def test_tokens_count_too(tmp_path):
    store = ReadingStore(tmp_path / "s")
    written = [ModelReading(key, None, "A text", 0.5, np.array([7, 8])) for key in "abc"]
    store.put(written)
    store._db.execute("UPDATE tokens SET ids = x'07000000' WHERE key = 'a'")
    store._db.execute("DELETE FROM tokens WHERE key = 'b'")
    assert store.missing("abc") == {"a", "b"}
    store.put([ModelReading("c", None, "Another", 0.5, np.array([9]))])  # what is there stays
    store.put(written)
    assert [(found.text, found.tokens.tolist()) for found in store.get("abc").values()] == [("A text", [7, 8])] * 3


def test_a_reading_that_is_gone_is_a_sentence(tmp_path):
    readings = ReadingStore(tmp_path / "s").get(["a"])
    for found in (readings, pickle.loads(pickle.dumps(readings))):
        with pytest.raises(UserError, match=r"^store=.*s: a reading is not there, or does not match.*read again"):
            found["a"]


@pytest.mark.parametrize("values", [[0.5, -1], [np.nan, -1], [np.inf, -1]])
def test_what_no_model_says_is_not_stored(tmp_path, values):
    store = ReadingStore(tmp_path / "s")
    with pytest.raises(UserError, match=r"a reading holds the log-probability (0\.5|nan|inf)"):
        store.put([reading("a"), ModelReading("b", np.array(values), None, 0.1)])
    with pytest.raises(UserError, match=r"an answer holds half a character .* a surrogate without its partner"):
        store.put([reading("a"), ModelReading("b", None, "\ud800", 0.1)])
    assert store.missing("ab") == {"a", "b"}


def test_what_no_model_says_is_read_again_even_with_a_checksum(tmp_path):
    store, zeros = ReadingStore(tmp_path / "s"), np.array([0.5, -1], np.float32).tobytes()
    store.put([reading("a"), reading("b")])
    mark = checksum(b"b", zeros, None, 0.1, None)
    store._db.execute("UPDATE readings SET logprobs = ?, checksum = ? WHERE key = 'b'", (zeros, mark))
    assert store.missing("ab") == {"b"}


def test_candidates_that_sum_to_more_than_1_are_refused():
    prompt = Prompt(
        Example("e7", "g", "s", "", "", {}), Condition("coherence", ScoreRange(1, 5)), "", "", np.array([1])
    )
    check_shares(np.log([0.5, 0.5, 1e-9]).tolist(), prompt, Path("s"))
    check_shares([-np.inf, -np.inf], prompt, Path("s"))
    with pytest.raises(UserError, match=r"store=s: the candidates' probabilities of example e7 .* sum to 4, and"):
        check_shares([0.0] * 4, prompt, Path("s"))


@pytest.mark.parametrize("fault", ["deleted", "replaced"])
def test_a_store_that_was_deleted_under_way_is_told(tmp_path, fault):
    path = tmp_path / "s"
    store = ReadingStore(path)
    store.put([reading("a")])
    path.rename(tmp_path / "other")
    if fault == "replaced":
        ReadingStore(path).put([reading("z")])
    for use in (lambda: store.put([reading("b")]), lambda: store.get(["a"]), lambda: store.missing(["a"])):
        with pytest.raises(UserError, match=r"s: the file was deleted, moved or replaced while this run used it"):
            use()


def test_a_store_is_found_again_from_another_folder_and_over_a_network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = ReadingStore(Path("s"))
    monkeypatch.chdir("/")
    store.put([reading("a")])
    monkeypatch.setattr("judgebench.readings.store.on_network", lambda path: True)
    store = ReadingStore(tmp_path / "n")
    (tmp_path / "n").rename(tmp_path / "m")
    with pytest.raises(UserError, match="deleted, moved or replaced"):
        store.put([reading("a")])
    shutil.copy(tmp_path / "m", tmp_path / "n")  # another inode
    assert store.missing(["a"]) == {"a"}


# --- the command ------------------------------------------------------------------------------------------------------


def test_damage_is_counted_and_left_out_of_what_is_merged(tmp_path, capsys):
    whole, damaged, merged = tmp_path / "a.sqlite", tmp_path / "b.sqlite", tmp_path / "c.sqlite"
    for path, keys in ((whole, "ab"), (damaged, "bcd")):
        store = ReadingStore(path)
        store.put([ModelReading(key, np.array([-0.5], np.float32), "4", 0.5, np.array([7])) for key in keys])
        store.close()
    rows(damaged, "UPDATE readings SET text = '5' WHERE key = 'c'")
    assert main(["verify", str(whole)]) == 0
    assert capsys.readouterr().out == f"{whole}: 2 readings, all as they were written\n"
    assert main(["verify", str(whole), str(damaged)]) == 1
    assert "2 readings as they were written; 1 do not match their checksums" in capsys.readouterr().out
    assert main(["merge", str(whole), str(damaged), f"out={merged}"]) == 0
    assert capsys.readouterr().out == (
        f"3 readings added, 1 were there; 1 that do not match their checksums were left out\n{merged}\n"
    )
    assert main(["verify", str(merged)]) == 0
    assert {key: found.tokens.tolist() for key, found in ReadingStore(merged).get("abcd").items()} == {
        key: [7] for key in "abd"
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list", "a.sqlite"], "list: there is no such command; there are verify, merge"),
        (["merge", "a.sqlite", "out=a.sqlite"], "it is one of the stores that are merged"),
        (["merge", "a.sqlite"], "merge lacks out=STORE"),
        (["verify", "nowhere"], "there is no such file"),
    ],
)
def test_a_command_that_cannot_be_is_a_sentence(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    ReadingStore(Path("a.sqlite")).close()
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert not Path("readings").exists()


def test_no_store_keeps_what_is_read_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store(Path("none"))
    store.put([reading("a")])
    assert store.missing(["a", "b"]) == {"b"}
    assert not list(tmp_path.iterdir())


# --- several processes ------------------------------------------------------------------------------------------------

READINGS = st.lists(
    st.builds(
        ModelReading,
        st.text("0123456789abcdef", min_size=1, max_size=64),
        st.none() | arrays(np.float32, st.integers(0, 9), elements=st.floats(width=32, allow_nan=False)),
        st.none() | st.text(),
        st.floats(0, 1e6),
        st.none() | arrays(np.int32, st.integers(0, 9)),
    ),
    max_size=5,
)


@given(READINGS)
def test_readings_arrive_as_they_were_sent_to_the_last_bit(readings):
    for sent, got in zip(readings, unpack_readings(pack_readings(readings)), strict=True):
        assert (got.key, got.text, got.seconds) == (sent.key, sent.text, sent.seconds)
        for name in ("logprobs", "tokens"):
            before, after = getattr(sent, name), getattr(got, name)
            assert (before is None) == (after is None)
            assert before is None or (before.tobytes() == after.tobytes() and before.dtype == after.dtype)


def test_one_process_has_the_store_to_itself_and_waits_for_no_other(tmp_path):
    assert process_group().count == 1
    store = open_store(tmp_path / "readings.sqlite")
    assert type(store) is ReadingStore
    store.settle()
    for store in (SharedStore(tmp_path / "shared.sqlite", Processes()), ReadingStore(Path(":memory:"))):
        store.put([reading("a")])
        store.settle()
        assert store.missing(["a", "b"]) == {"b"}
        np.testing.assert_array_equal(store.get(["a"])["a"].logprobs, [-0.5, -1])


def test_agreement_may_be_asked_for_within_agreement():
    alone = Processes()
    assert alone.agree(lambda: alone.agree(lambda: 3)) == 3
    for ask in (alone.agree, alone.together):
        with pytest.raises(UserError, match=r"^no$"):
            ask(lambda: _refused("no"))
    assert list(alone.all_mail()) == []


def _refused(sentence):
    raise UserError(sentence)


MOUNTS = (
    *(("/", "ext4"), ("/home", "nfs4"), ("/home/me/local", "xfs"), ("/mnt/with blank", "fuse.sshfs")),
    *(("/scratch", "lustre"), ("/over", "nfs"), ("/over", "tmpfs")),
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/var/readings.sqlite", False),
        ("/home/me/outputs/readings.sqlite", True),
        ("/home/me/local/readings.sqlite", False),
        ("/homes/readings.sqlite", False),
        ("/mnt/with blank/readings.sqlite", True),
        ("/scratch", True),
        ("/over/readings.sqlite", False),
    ],
)
def test_the_innermost_and_latest_mount_says_where_a_file_lies(monkeypatch, path, expected):
    disks = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in MOUNTS]
    monkeypatch.setattr("psutil.disk_partitions", lambda all: disks)
    assert on_network(Path(path)) is expected


def test_a_store_of_this_machine_has_a_write_ahead_log_and_opens_under_a_rollback_journal_too(tmp_path, monkeypatch):
    path = tmp_path / "readings.sqlite"
    store = ReadingStore(path)
    store.put([ModelReading("a", None, "text", 0.0)])
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()
    monkeypatch.setattr("judgebench.readings.store.on_network", lambda path: True)
    moved = ReadingStore(path)
    moved.put([ModelReading("b", None, "more", 0.0)])
    assert moved._db.execute("PRAGMA journal_mode").fetchone() == ("truncate",)
    assert not list(tmp_path.glob("*-wal"))
    assert set(moved.get(["a", "b"])) == {"a", "b"}


def test_nobody_who_opens_a_new_store_takes_it_for_another_programs(tmp_path):
    def opened(path):
        try:
            return ReadingStore(path) and ""
        except UserError as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        said = "".join(pool.map(opened, [tmp_path / f"{place // 8}.sqlite" for place in range(80)]))
    assert "another program" not in said
