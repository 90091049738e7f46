"""The cost of a run's requests, in tokens and in money, and the limit that stops the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from judgebench.judges.api.price import Price
from judgebench.judges.api.protocol import Request, Usage
from judgebench.runtime.errors import UserError


@dataclass
class Account:
    """Requests to one endpoint in this run, and what they took.

    Attributes:
        requests: that were answered.
        retries: that were sent again.
        uncounted: answered requests whose tokens the server did not tell, and which were estimated.
        cost: USD of the answered ones, as the configured prices have it.
        unconfirmed: USD that requests may have cost whose answer was lost: a server may bill what nobody received.
        ratio: the largest share of a prompt's tokens, as the server counts them, in what was estimated beforehand.
    """

    price: Price
    requests: int = 0
    retries: int = 0
    uncounted: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unconfirmed: float = 0.0
    ratio: float = 1.0
    failures: Counter[str] = field(default_factory=Counter)

    def expected(self, request: Request) -> float:
        """The most that a request is expected to cost in USD; 0 where prices are not known."""
        return self.price.of(request.prompt_tokens * self.ratio, 0, request.max_tokens) or 0.0

    def paid(self, request: Request, usage: Usage | None) -> None:
        """Books an answered request."""
        self.requests += 1
        if usage is None:
            self.uncounted += 1
            usage = Usage(round(request.prompt_tokens * self.ratio), 0, request.max_tokens)
        elif request.prompt_tokens:
            self.ratio = max(self.ratio, usage.prompt / request.prompt_tokens)
        self.prompt_tokens += usage.prompt
        self.cached_tokens += usage.cached
        self.completion_tokens += usage.completion
        self.cost += self.price.of(usage.prompt, usage.cached, usage.completion) or 0.0

    def record(self) -> dict[str, Any]:
        """For environment.json; money is None where prices are not known."""
        return {
            "requests": self.requests,
            "retries": self.retries,
            "failures": dict(self.failures),
            "uncounted_requests": self.uncounted,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "cost": self.cost if self.price.known else None,
            "unconfirmed_cost": self.unconfirmed if self.price.known else None,
        }


class Bill:
    """The cost of all endpoints of a run together, held under `max_cost`.

    Args:
        max_cost: USD; None is no limit.
    """

    def __init__(self, max_cost: float | None = None):
        self._most = max_cost
        self._reserved = 0.0
        self._accounts: list[Account] = []

    def account(self, price: Price) -> Account:
        """One endpoint's own."""
        self._accounts.append(Account(price))
        return self._accounts[-1]

    @property
    def spent(self) -> float:
        """USD so far, lost answers among them."""
        return sum(account.cost + account.unconfirmed for account in self._accounts)

    def reserve(self, account: Account, request: Request) -> float:
        """Puts aside what a request may cost, before it is sent.

        Raises:
            UserError: with all that was spent and is under way, it could pass `max_cost`.
        """
        expected = account.expected(request)
        if self._most is not None and self.spent + self._reserved + expected > self._most:
            under_way = f", ${self._reserved:.6g} are set aside for requests under way" if self._reserved else ""
            raise UserError(
                f"judge.max_cost: the next request could cost ${expected:.6g} and pass the ${self._most:g} that the "
                f"run may cost: ${self.spent:.6g} are spent{under_way}. Raise judge.max_cost (each command has its "
                "own), or judge less, as with data.limit_groups."
            )
        self._reserved += expected
        return expected

    def settle(self, account: Account, reserved: float, request: Request, usage: Usage | None) -> None:
        """Books the answer to a request for which `reserved` was put aside."""
        self._reserved -= reserved
        account.paid(request, usage)

    def lose(self, account: Account, reserved: float, billed: bool) -> None:
        """Books a request without an answer; `billed`: the server may have read it all the same."""
        self._reserved -= reserved
        if billed:
            account.unconfirmed += reserved


def unpaid(served: Mapping[str, Any]) -> dict[str, Any]:
    """The `served` record of a run that asks nobody, for all readings are known."""
    nothing = dict.fromkeys(("requests", "retries", "uncounted_requests"), 0)
    nothing |= dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens"), 0)

    def idle(side: Mapping[str, Any]) -> dict[str, Any]:
        money = {name: None if side[name] is None else 0.0 for name in ("cost", "unconfirmed_cost")}
        return {**side, **nothing, **money, "failures": {}}

    return {
        name: idle(value) if name in ("main", "assistant") else (0.0 if name == "cost" and value is not None else value)
        for name, value in served.items()
    }
