"""The store of several processes: what travels between them, and what one process tells another."""

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

from judgebench.readings.reading import ModelReading, pack_readings, unpack_readings
from judgebench.readings.store import ReadingStore, SharedStore, open_store
from judgebench.runtime.distributed import Processes, here
from judgebench.runtime.errors import UserError
from judgebench.runtime.files import on_network

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


def test_one_process_has_the_store_to_itself(tmp_path):
    assert here().count == 1
    store = open_store(tmp_path / "readings.sqlite")
    assert type(store) is ReadingStore
    store.settle()


def test_the_only_process_of_a_run_needs_no_one(tmp_path):
    store = SharedStore(tmp_path / "readings.sqlite", Processes())
    readings = [ModelReading("a", np.float32([-1, -2]), None, 0.5)]
    store.put(readings)
    store.settle()
    assert store.missing(["a", "b"]) == {"b"}
    np.testing.assert_array_equal(store.get(["a"])["a"].logprobs, [-1, -2])


def test_what_one_finds_may_ask_for_agreement_in_its_turn():
    alone = Processes()
    assert alone.agree(lambda: alone.agree(lambda: 3)) == 3
    with pytest.raises(UserError, match=r"^no$"):
        alone.agree(lambda: _refused("no"))
    with pytest.raises(UserError, match=r"^nor together$"):
        alone.together(lambda: _refused("nor together"))
    assert list(alone.all_mail()) == []


def _refused(sentence):
    raise UserError(sentence)


MOUNTS = r"""
22 1 0:2 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:31 / /home rw,relatime shared:5 - nfs4 server:/export/home rw,vers=4.2
31 30 0:40 / /home/me/local rw - xfs /dev/nvme0n1 rw
32 22 0:41 / /mnt/with\040blank rw - fuse.sshfs me@host:/ rw
33 22 0:42 / /scratch rw - lustre mds@tcp:/scratch rw,flock
34 22 0:43 / /over rw - nfs server:/over rw
35 34 0:44 / /over rw - tmpfs tmpfs rw
"""


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
def test_the_innermost_and_latest_mount_says_where_a_file_lies(path, expected):
    assert on_network(Path(path), MOUNTS) is expected


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
