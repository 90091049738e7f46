"""Data sets from the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path

from judgebench.runtime.errors import UserError

_FILE_ENDINGS = (".json", ".jsonl", ".parquet")


def is_hub_id(path: str) -> bool:
    """Whether `path` names a data set on the hub ("owner/name") and not a local file or folder.

    A path that exists, has a data file's ending or begins with an existing folder is local: a mistyped local path
    must not become a network call.
    """
    return (
        re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", path) is not None
        and not path.endswith(_FILE_ENDINGS)
        and not Path(path).exists()
        and not Path(path).parent.exists()
    )


def download(dataset_id: str) -> Path:
    """The folder of the data set's parquet files, downloaded or from the hub's own cache.

    Raises:
        UserError: it can be had neither from the hub nor from the cache.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(dataset_id, repo_type="dataset", allow_patterns=["*.parquet"]))
    # The hub's own errors, its HTTP library's and the system's have no common base below Exception.
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"data.path: the data set '{dataset_id}' is not in the local cache and the Hugging Face hub did not give it"
            f" ({reason.rstrip('.')}); get its parquet file where there is network, and give it with"
            " data.path=FILE.parquet."
        ) from error
