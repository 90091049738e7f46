"""Data inside a page: JSON, compressed, as text that no parser of HTML or scripts looks into."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any


def pack(content: Any) -> str:
    """JSON in UTF-8, gzip, base64: letters, digits and `+/=` alone, so that nothing in it can end its element. Equal
    content gives equal text.

    Example:
        >>> unpack(pack({"said": "</script><!--"}))
        {'said': '</script><!--'}
    """
    plain = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # a lone half of a surrogate pair, which broken data may hold, has no place in UTF-8
    return base64.b64encode(gzip.compress(plain.encode("utf-8", "replace"), 6, mtime=0)).decode("ascii")


def unpack(text: str) -> Any:
    """The value that `pack` was given; in the page, assets/examples.js does this."""
    return json.loads(gzip.decompress(base64.b64decode(text)))
