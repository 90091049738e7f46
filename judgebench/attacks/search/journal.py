"""What a search has done, on disk: a file a word, whole or not there; a killed search goes on at the next word."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from judgebench.runtime.errors import UserError
from judgebench.runtime.files import atomic


class Journal:
    """The steps of one search.

    Args:
        folder: under which journals are kept.
        identity: everything that the steps depend on, but how many there are; JSON-serialisable.

    Attributes:
        key: SHA-256 of `identity`.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]):
        self.key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        self._folder = folder / self.key[:16]
        self._identity = identity

    def get(self, step: str) -> pd.DataFrame | None:
        """What a step has written; None if it was never finished."""
        path = self._folder / f"{step}.parquet"
        if not path.is_file():
            return None
        try:
            return pd.read_parquet(path)
        except Exception:  # a file that another program has cut: the step is done again
            return None

    def put(self, step: str, rows: pd.DataFrame) -> None:
        """Keeps the rows of a finished step.

        Raises:
            UserError: they cannot be written, as on a full disk.
        """
        described = self._folder / "search.json"
        try:
            if not described.is_file():
                with atomic(described) as temporary:
                    temporary.write_text(json.dumps(self._identity, indent=1, sort_keys=True), "utf-8")
            with atomic(self._folder / f"{step}.parquet") as temporary:
                rows.to_parquet(temporary, index=False)
        except OSError as error:
            raise UserError(
                f"store: the journal of the search in {self._folder} cannot be written ({error.strerror or error}). "
                "The words before this one stay; run the same command again when there is room."
            ) from error
