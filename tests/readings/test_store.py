import sqlite3
import threading

import numpy as np
import pytest

from judgebench.errors import UserError
from judgebench.readings.store import ModelReading, ReadingStore, reading_key


def reading(key, value=0.5):
    return ModelReading(key, np.array([value, -value], np.float32), None, 0.1)


def test_what_is_put_is_got_bit_for_bit(tmp_path):
    store = ReadingStore(tmp_path / "deep" / "readings.sqlite")
    values = np.array([-0.1, -np.inf, -1e-30], np.float32)
    store.put([ModelReading("a", values, None, 0.25), ModelReading("b", None, "Score: 4", 0.5)])
    store.close()
    held = ReadingStore(tmp_path / "deep" / "readings.sqlite").get(["a", "b", "c"])
    assert held.keys() == {"a", "b"}
    assert held["a"].logprobs.tobytes() == values.tobytes()
    assert held["b"] == ModelReading("b", None, "Score: 4", 0.5)


def test_tokens_are_kept_where_they_are_given(tmp_path):
    store, tokens = ReadingStore(tmp_path / "s"), np.array([5, 49151, 0], np.int32)
    store.put([ModelReading("a", None, "A text", 0.5, tokens), ModelReading("b", None, "A text", 0.5)])
    store.put([ModelReading("a", None, "Another", 0.5, tokens[:1])])
    held = store.get(["a", "b"])
    assert held["a"].text == "A text"
    assert (held["a"].tokens.dtype, held["a"].tokens.tolist()) == (np.int32, [5, 49151, 0])
    assert held["b"].tokens is None


def test_a_store_from_before_there_were_tokens_is_read_and_gets_them(tmp_path):
    store = ReadingStore(tmp_path / "s")
    store.put([reading("a")])
    store.close()
    with sqlite3.connect(tmp_path / "s") as older:
        older.execute("DROP TABLE tokens")
    older.close()
    store = ReadingStore(tmp_path / "s")
    store.put([ModelReading("b", None, "A text", 0.5, np.array([7]))])
    held = store.get(["a", "b"])
    assert (held["a"].tokens, held["b"].tokens.tolist()) == (None, [7])


def test_what_is_there_stays(tmp_path):
    store = ReadingStore(tmp_path / "s")
    store.put([reading("a", 1.0)])
    store.put([reading("a", 2.0), reading("b", 3.0)])
    assert store.get(["a"])["a"].logprobs[0] == 1.0
    assert store.missing(["a", "b", "c"]) == {"c"}


def test_a_batch_is_put_whole_or_not_at_all(tmp_path):
    store = ReadingStore(tmp_path / "s")
    broken = ModelReading("b", np.array([1.0]), None, None)  # type: ignore[arg-type]
    with pytest.raises(sqlite3.IntegrityError):
        store.put([reading("a"), broken])
    assert store.missing(["a"]) == {"a"}
    store.put([reading("c")])
    assert store.missing(["c"]) == set()


def test_many_keys_at_once(tmp_path):
    store = ReadingStore(tmp_path / "s")
    keys = [f"{i:05d}" for i in range(3000)]
    store.put([reading(key) for key in keys[:2000]])
    assert store.missing(keys) == set(keys[2000:])
    assert len(store.get(keys)) == 2000


def test_two_writers_at_once_lose_nothing(tmp_path):
    ReadingStore(tmp_path / "s").close()

    def write(who):
        store = ReadingStore(tmp_path / "s")
        for i in range(100):
            store.put([reading(f"{who}{i}")])

    threads = [threading.Thread(target=write, args=(who,)) for who in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not ReadingStore(tmp_path / "s").missing(f"{who}{i}" for who in "ab" for i in range(100))


def test_keys_tell_apart_whatever_matters():
    ids = np.array([1, 2, 3], np.int32)
    base = {"model": "a", "dtype": "float32", "mode": "score_tokens", "exit": None}
    keys = {reading_key(base, ids), reading_key(base, ids[:2])}
    keys |= {reading_key({**base, name: "other"}, ids) for name in base}
    assert len(keys) == 6
    assert reading_key(dict(reversed(base.items())), ids.astype(np.int64)) == reading_key(base, ids)


def test_a_file_that_is_no_store_is_told(tmp_path):
    (tmp_path / "notes.txt").write_text("not a database, but long enough to look at: " * 50)
    with pytest.raises(UserError, match=r"store=.*notes\.txt: no store of readings can be opened there"):
        ReadingStore(tmp_path / "notes.txt")


def test_a_store_of_a_later_format_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "s") as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(UserError, match="format 99"):
        ReadingStore(tmp_path / "s")


def test_another_programs_database_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "mail.sqlite") as db:
        db.execute("CREATE TABLE mails (subject TEXT)")
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
    assert store.file_digest(file) == first
    file.write_bytes(b"other")
    assert store.file_digest(file) != first


def test_a_reading_whose_numbers_are_cut_off_is_told(tmp_path):
    store = ReadingStore(tmp_path / "r.sqlite")
    store.put([ModelReading("k", np.zeros(3, np.float32), None, 0.0)])
    store._db.execute("UPDATE readings SET logprobs = x'0102030405'")
    with pytest.raises(UserError, match=r"r\.sqlite: this store cannot be read any more"):
        store.get(["k"])
