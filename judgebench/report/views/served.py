"""Requests to judges behind a URL, the source of their scores, and the cost: for people to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COUNTED = ("requests", "retries", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "unconfirmed_cost")


def served_facts(served: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Name and fact, a few for each model; none where no model was served.

    Args:
        served: of environment.json.
    """
    if served is None:
        return []
    facts: list[tuple[str, str]] = []
    for role in ("main", "assistant"):
        if (one := served.get(role)) is None:
            continue
        facts.append((f"{role} asked", f"{one['model']} at {one['url']}, {_way(one)}"))
        if known := _known(one):
            facts.append((f"{role} readings", known))
        says = [f"{held['model']}{_print(held)}" for held in one["served_as"] if held["model"] is not None]
        if says:
            changed = ": it changed while it was asked" if len(says) > 1 else ""
            facts.append((f"{role} served as", f"{', '.join(says)}{changed}"))
        facts.append((f"{role} requests", _requests(one)))
    facts.append(("cost of this run", _money(served)))
    return facts


def served_lines(served: Mapping[str, Any]) -> str:
    """The same as lines to print."""
    return "\n".join(f"{name}: {fact}" for name, fact in served_facts(served))


def served_notes(served: Mapping[str, Any] | None) -> dict[str, str] | None:
    """For the metadata of readings.parquet: role -> where its scores come from; None where no model was served."""
    if served is None:
        return None
    roles = [role for role in ("main", "assistant") if role in served]
    return {f"judgebench.{role}.scores_from": str(served[role]["scores_from"]) for role in roles}


def served_scalars(served: Mapping[str, Any] | None) -> dict[str, float]:
    """For the W&B summary: `served/main/prompt_tokens` and the like, and `served/cost`; nulls are left out."""
    found: dict[str, float] = {}
    for role in ("main", "assistant"):
        one = (served or {}).get(role) or {}
        found |= {f"served/{role}/{name}": float(one[name]) for name in _COUNTED if one.get(name) is not None}
    cost = (served or {}).get("cost")
    return found if cost is None else found | {"served/cost": float(cost)}


def _way(one: Mapping[str, Any]) -> str:
    given = {
        "logprobs": "scores from listed log-probabilities",
        "samples": f"scores from the shares of {one['samples']} answers at temperature {one['temperature']:g}",
        "text": f"scores from one answer at temperature {one['temperature']:g}",
    }[one["scores_from"]]
    explicit = f", candidates asked for by themselves ({one['explicit']})" if one["explicit"] else ""
    return f"{given} ({one['protocol']}{explicit})"


def _known(one: Mapping[str, Any]) -> str:
    """Scores that lists left open and answers did not name, over all conditions."""
    told = []
    listed = [each for each in one["conditions"] if each["unlisted"] is not None]
    if listed:
        count = sum(each["readings"] for each in listed)
        unlisted = sum(each["unlisted"] * each["readings"] for each in listed) / count
        bounded, undecided = (sum(each[name] for each in listed) for name in ("bounded", "undecided"))
        told.append(
            f"{count:,}, the lists leave out {100 * unlisted:.3g} % of probability in the mean; {bounded:,} are known "
            f"within bounds only, and in {undecided:,} of them the likeliest score is open"
        )
    answers = sum(each["answers"] or 0 for each in one["conditions"])
    if answers:
        failed = sum(each["failed_answers"] or 0 for each in one["conditions"])
        told.append(f"{answers:,} answers, {failed:,} of which name no score")
    return "; ".join(told)


def _requests(one: Mapping[str, Any]) -> str:
    told = f"{one['requests']:,} in this run, {one['prompt_tokens']:,} prompt tokens"
    told += f" ({one['cached_tokens']:,} of them cached)" if one["cached_tokens"] else ""
    told += f" and {one['completion_tokens']:,} of answers"
    if one["uncounted_requests"]:
        told += f"; {one['uncounted_requests']:,} answers did not count their tokens, which are estimated"
    if one["retries"]:
        kinds = ", ".join(f"{kind} {count}x" for kind, count in one["failures"].items())
        told += f"; {one['retries']:,} tries failed and were repeated ({kinds})"
    return told


def _print(held: Mapping[str, Any]) -> str:
    return "" if held["fingerprint"] is None else f" ({held['fingerprint']})"


def _money(served: Mapping[str, Any]) -> str:
    if served["cost"] is None:
        return "not counted, for judge.price is not given"
    lost = sum((served.get(role) or {}).get("unconfirmed_cost") or 0.0 for role in ("main", "assistant"))
    lost_too = f", ${lost:.6g} of it for answers that were lost" if lost else ""
    most = f" of ${served['max_cost']:g} at most" if served["max_cost"] is not None else ""
    return f"${served['cost']:.6g}{most}{lost_too}"
