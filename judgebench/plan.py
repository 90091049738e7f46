"""The command line of the label plan of earlier versions: says what to use."""

from __future__ import annotations

import sys

from judgebench.runtime.dropped import dropped
from judgebench.words.terminal import print_safely

if __name__ == "__main__":
    print_safely(f"judgebench: {dropped('judgebench plan')}", error=True)
    sys.exit(2)
