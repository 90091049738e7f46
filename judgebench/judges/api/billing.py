"""Prices of a served model's tokens, the cost of a run's requests, and the limit that stops the next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from judgebench.runtime.errors import UserError, shown

if TYPE_CHECKING:
    from judgebench.judges.api.protocol import Request

_LARGEST_PRICE = 1e9


@dataclass(frozen=True)
class Price:
    """Prices of tokens in USD per million; None where they are not known.

    Attributes:
        cached_input: of prompt tokens in the server's cache; None: as `input`.
    """

    input: float | None = None
    cached_input: float | None = None
    output: float | None = None

    @classmethod
    def parse(cls, given: Any, role: str) -> Price:
        """From the config key `<role>.price`.

        Raises:
            UserError: no mapping, an unknown entry, or one that is no price.
        """
        given = {} if given is None else given
        known = ("input", "cached_input", "output")
        if not isinstance(given, Mapping) or set(given) - set(known):
            raise UserError(
                f"{role}.price: must be a mapping with {', '.join(known)}, in USD per million tokens, got "
                f"{shown(given)}."
            )
        for name, value in given.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and 0 <= value <= _LARGEST_PRICE):
                raise UserError(
                    f"{role}.price.{name}: {shown(value)} is not a price; give USD per million tokens, or null."
                )
        return cls(**given)

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
        uncounted: answered requests without a token count, which was estimated.
        cost: USD of the answered ones, by the configured prices.
        unconfirmed: USD that requests may have cost whose answer was lost: a server may bill what nobody received.
        ratio: the largest quotient of a prompt's tokens, as the server counts them, and their estimate.
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
    """The cost of all endpoints of a run together, which stays below `max_cost` USD; None is no limit."""

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
