"""The search for a universal adversarial phrase."""

from judgebench.attacks.search.search import Search
from judgebench.attacks.search.suffix import AdvSuffix

__all__ = ["AdvSuffix", "Search"]
