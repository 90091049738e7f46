"""Prices of a served model's tokens, the cost of a run's requests, and the limit that stops the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from judgebench.config.fields import Annotated, Ge, Le
from judgebench.runtime.errors import UserError

_Usd = Annotated[float, Ge(0), Le(1e9)] | None


@dataclass(frozen=True)
class Price:
    """Prices of tokens in USD per million; None where they are unknown.

    Attributes:
        cached_input: of prompt tokens in the server's cache; None: as `input`.
    """

    input: _Usd = None
    cached_input: _Usd = None
    output: _Usd = None

    @property
    def known(self) -> bool:
        return self.input is not None and self.output is not None

    def of(self, prompt: float, cached: float, completion: float) -> float | None:
        """The cost in USD of so many tokens; `cached` are those of the prompt's that were in the cache.

        Example:
            >>> Price(2.0, 0.5, 8.0).of(1_000_000, 600_000, 100_000)
            1.9
        """
        if self.input is None or self.output is None:
            return None
        cheap = self.input if self.cached_input is None else self.cached_input
        return ((prompt - cached) * self.input + cached * cheap + completion * self.output) / 1e6


@dataclass(frozen=True)
class Usage:
    """Tokens of one request, as the server counts them; `cached` are those of the prompt in its cache."""

    prompt: int
    cached: int
    completion: int


@dataclass
class Account:
    """Requests to one endpoint in this run, and what they took.

    Attributes:
        requests: answered ones.
        uncounted_requests: answered requests without a token count, which was estimated.
        cost: USD of the answered ones, by the configured prices.
        unconfirmed: USD that requests may have cost whose answer was lost: a server may bill what never arrived.
        ratio: the largest quotient of a prompt's tokens, as the server counts them, and their estimate.
    """

    price: Price
    requests: int = 0
    retries: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    uncounted_requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unconfirmed: float = 0.0
    ratio: float = 1.0

    def record(self) -> dict[str, Any]:
        """For environment.json; money is None where prices are unknown."""
        record = asdict(self)
        del record["price"], record["ratio"]
        money = {"cost": record.pop("cost"), "unconfirmed_cost": record.pop("unconfirmed")}
        return record | {"failures": dict(self.failures)} | (money if self.price.known else dict.fromkeys(money))


class Bill:
    """The cost of all endpoints of a run together, which stays below `max_cost` USD; None sets no limit."""

    def __init__(self, max_cost: float | None = None):
        self._most = max_cost
        self._reserved = 0.0
        self._accounts: list[Account] = []

    def account(self, price: Price) -> Account:
        self._accounts.append(Account(price))
        return self._accounts[-1]

    @property
    def spent(self) -> float:
        """USD so far, lost answers among them."""
        return sum(account.cost + account.unconfirmed for account in self._accounts)

    def reserve(self, account: Account, estimate: Usage) -> float:
        """Puts aside the most that a request is expected to cost, before it is sent; 0 where prices are unknown.

        Raises:
            UserError: with all that was spent and is under way, it could pass `max_cost`.
        """
        expected = account.price.of(estimate.prompt * account.ratio, 0, estimate.completion) or 0.0
        if self._most is not None and self.spent + self._reserved + expected > self._most:
            under_way = f", ${self._reserved:.6g} are set aside for requests under way" if self._reserved else ""
            raise UserError(
                f"judge.max_cost: the next request could cost ${expected:.6g} and pass the ${self._most:g} that the "
                f"run may cost: ${self.spent:.6g} are spent{under_way}. Raise judge.max_cost (each command has its "
                "own), or judge less, as with data.limit_groups."
            )
        self._reserved += expected
        return expected

    def settle(self, account: Account, reserved: float, estimate: Usage, usage: Usage | None) -> None:
        """Books the answer to a request for which `reserved` was put aside."""
        self._reserved -= reserved
        account.requests += 1
        if usage is None:
            account.uncounted_requests += 1
            usage = Usage(round(estimate.prompt * account.ratio), 0, estimate.completion)
        elif estimate.prompt:
            account.ratio = max(account.ratio, usage.prompt / estimate.prompt)
        account.prompt_tokens += usage.prompt
        account.cached_tokens += usage.cached
        account.completion_tokens += usage.completion
        account.cost += account.price.of(usage.prompt, usage.cached, usage.completion) or 0.0

    def lose(self, account: Account, reserved: float, billed: bool) -> None:
        """Books a request without an answer; `billed`: the server may have read it all the same."""
        self._reserved -= reserved
        account.unconfirmed += reserved if billed else 0.0


def unpaid(served: Mapping[str, Any]) -> dict[str, Any]:
    """The `served` record of a run that sends nothing, for all readings are in the store."""
    record = {**served, "cost": None if served["cost"] is None else 0.0}
    for role in ("main", "assistant"):
        if role in served:
            free = {name: 0.0 for name in ("cost", "unconfirmed_cost") if served[role][name] is not None}
            record[role] = {**served[role], **Account(Price()).record(), **free}
    return record
