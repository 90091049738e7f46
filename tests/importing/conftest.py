"""`judgebench from`, in this process."""

import sys
from functools import partial

import pytest

from judgebench.command.from_results import main


@pytest.fixture
def take(judgebench, called):
    """`judgebench from` in an empty folder."""
    return partial(called, lambda: sys.exit(main()))
