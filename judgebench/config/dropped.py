"""Names of things that earlier versions of judgebench had: one table, which the refusals of unknown names look into."""

from __future__ import annotations

from collections.abc import Iterator

DROPPED = {
    "store=parquet:": "readings are kept in SQLite, as store=outputs/readings.sqlite, or not at all (store=none); "
    "the readings of a Parquet store come into a SQLite file by the version that wrote them, with "
    "`python -m judgebench.store copy parquet:FOLDER outputs/readings.sqlite`",
    "store list": "take `python -m judgebench.store verify STORE`, which says how many readings a store has",
    "store copy": "take `python -m judgebench.store merge FROM out=TO`",
    "store prune": "a reading that does not match its checksum is read again without it; `python -m judgebench.store "
    "merge STORE out=OTHER` leaves such readings out",
}
"""A command, key=value or key, as it was written -> what to use instead, as a clause."""


def dropped(*names: str) -> str | None:
    """The sentence on the first of some names that was dropped; None where none was."""
    found: Iterator[str] = (f"{name}: is dropped; {DROPPED[name]}." for name in names if name in DROPPED)
    return next(found, None)
