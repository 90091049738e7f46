"""Requests to judges behind a URL, in sentences: of `served` in environment.json."""

from __future__ import annotations

from judgebench.types import Row
from judgebench.words.formats import say

ROLES = ("main", "assistant")
"""Of models behind a URL."""


def served_facts(served: Row | None) -> list[tuple[str, str]]:
    """Name and fact, a few for each model, of `served` in environment.json; none where no model was
    served."""
    facts = []
    for role in ROLES:
        if judge := (served or {}).get(role):
            for name in ("asked", "readings", "served as", "requests"):
                facts.append((f"{role} {name}", say("served", part=name, judge=judge)))
            facts.append((f"{role} servers", by_server(judge)))
    if served is not None:
        bills = [served.get(role) or {} for role in ROLES]
        lost = sum(bill.get("unconfirmed_cost") or 0.0 for bill in bills)
        facts.append(("cost of this run", say("served", part="cost", served=served, lost=lost)))
    return [(name, fact) for name, fact in facts if fact]


def by_server(judge: Row) -> str:
    """Requests that each of several servers answered; nothing of a server alone."""
    servers = judge.get("servers") or {}
    asked = [
        f"{url} answered {record['requests']:,}"
        for url, record in servers.items()
        if record["requests"] or record["failures"]
    ]
    return "; ".join(asked) if len(servers) > 1 else ""


def served_lines(served: Row) -> str:
    """The same as lines to print."""
    return "\n".join(f"{name}: {fact}" for name, fact in served_facts(served))


def served_notes(served: Row | None) -> dict[str, str] | None:
    """For the metadata of readings.parquet: role -> where its scores come from; None where no model
    was served."""
    if served is None:
        return None
    return {
        f"judgebench.{role}.scores_from": str(served[role]["scores_from"])
        for role in ROLES
        if role in served
    }
