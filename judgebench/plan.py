"""The command line of the label plan of earlier versions: says what to use."""

from __future__ import annotations

import sys

from judgebench.config.dropped import dropped

if __name__ == "__main__":
    print(f"judgebench: {dropped('judgebench plan')}", file=sys.stderr)
    sys.exit(2)
