"""The store of a run of several processes, which may be on several machines: the first process has it.

SQLite's write-ahead log is shared memory, so it serves the processes of one machine alone, and over a network file
system nothing of SQLite's locking can be trusted. Hence one process opens the file; the others ask it, and send it what
they have read, batch by batch.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from judgebench.readings.reading import FoundReadings, ModelReading
from judgebench.readings.store import ReadingStore
from judgebench.runtime.distributed import Processes, here


def open_store(path: Path) -> ReadingStore:
    """The store of this run, however many processes it has.

    Raises:
        UserError: see `ReadingStore`.
    """
    processes = here()
    return ReadingStore(path) if processes.count == 1 else SharedStore(path, processes)


class SharedStore(ReadingStore):
    """A store that several processes of a run share. All but `put` is called by all of them, in the same order.

    Args:
        path: of the file; only the first process looks at it.
        processes: of the run.
    """

    def __init__(self, path: Path, processes: Processes):
        self._processes = processes
        self.path = path
        if processes.first:
            super().__init__(path)

    def close(self) -> None:
        """See `ReadingStore.close`."""
        if self._processes.first:
            super().close()

    def missing(self, keys: Iterable[str]) -> set[str]:
        """See `ReadingStore.missing`."""
        return self._processes.agree(lambda: ReadingStore.missing(self, keys))

    def get(self, keys: Iterable[str]) -> FoundReadings:
        """See `ReadingStore.get`."""
        return self._processes.agree(lambda: ReadingStore.get(self, keys))

    def file_digest(self, path: Path) -> str:
        """See `ReadingStore.file_digest`. The first process's file counts: the others take its weights."""
        return self._processes.agree(lambda: ReadingStore.file_digest(self, path))

    def put(self, readings: Sequence[ModelReading]) -> None:
        """See `ReadingStore.put`; another process's readings are on their way when this returns, and stored when the
        first process has done with the batch that it reads."""
        if not self._processes.first:
            if readings:
                self._processes.send(_packed(readings))
            return
        super().put(readings)
        for message in self._processes.mail():
            super().put(_unpacked(message))

    def settle(self) -> None:
        """See `ReadingStore.settle`."""
        for message in self._processes.all_mail():
            super().put(_unpacked(message))


def _packed(readings: Sequence[ModelReading]) -> bytes:
    """Not pickled: whoever unpickles runs what he is sent, and the mailbox is open to the network."""
    rows = [
        (
            one.key,
            None if one.logprobs is None else _text_of(np.asarray(one.logprobs, np.float32)),
            one.text,
            one.seconds,
            None if one.tokens is None else _text_of(np.asarray(one.tokens, np.int32)),
        )
        for one in readings
    ]
    return json.dumps(rows).encode()


def _unpacked(message: bytes) -> list[ModelReading]:
    return [
        ModelReading(key, _array_of(logprobs, np.float32), text, seconds, _array_of(tokens, np.int32))
        for key, logprobs, text, seconds, tokens in json.loads(message)
    ]


def _text_of(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _array_of(text: str | None, dtype: type[np.generic]) -> np.ndarray | None:
    return None if text is None else np.frombuffer(base64.b64decode(text), dtype)
