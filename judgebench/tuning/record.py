"""What tuning.json says: one record a dimension, range and tuned decoding, in JSON's own types, never NaN.

    {"tune": "dev",                  # dev, exact, published or shared: how lambda and t were chosen (dev also for the
                                     # tuning per range that tune=shared keeps beside its own, and for
                                     # expectations under tune=exact)
     "decoding": "contrastive",      # its name in scores.parquet, where `judge` is "pair"
     "rule": "argmax",               # or "expectation"
     "alpha": 0.0,                   # plausibility
     "dimension": "coherence", "range_min": 0.0, "range_max": 4.0, "range_step": 1.0,
     "lambda": 0.1, "temperature": 4.0, "kappa": 0.025,   # the choice
     "dev": 0.31, "test": 0.29,      # Spearman of the choice, level dataset; null where a split has no example
     "constant": false,              # every dev text has the same score: dev is 0 because there is no correlation; such
                                     # a point is chosen only where all are such; null without a dev split
     "dev_examples": 160, "dev_groups": 10, "test_examples": 1440, "test_groups": 90,
     "edge": false,                  # the choice lies at an end of what was looked at, see below
     "shared": null,                 # tune=shared: {"dev": 0.30, "test": 0.28}, means over the ranges; null otherwise
     "grid": [{"lambda": 0.01, "temperature": 0.5, "kappa": 0.02, "dev": 0.30, "test": 0.28, "constant": false}, ...],
     "grid_best": {...},             # the point of `grid` that tune=dev chooses; null without a dev split
     "grid_kappas": 18,              # distinct decodings in the grid, for scores depend on kappa alone
     "grid_scores": 7,               # truly distinct score vectors among them, over both splits
     "exact": {"kappa": 0.031, "dev": 0.33, "test": 0.30,   # null where rule is expectation, or without a dev split
               "constant": false,            # on dev, whatever kappa: there is nothing to choose by
               "low": 0.027, "high": 0.035,  # ends of the interval that kappa lies in; high null: it never ends
               "width": 0.008,               # null: it never ends
               "intervals": [[0.027, 0.035], ...],  # all optimal ones, ascending; [low, null] never ends
               "breakpoints": 503},          # distinct values of kappa at which any dev score changes
     "grid_below_exact": 0.02}       # exact.dev - grid_best.dev, never below 0; null where either is, or one alone is
                                     # constant

`grid` is in the order lambda by lambda, in each t by t, whatever `tune` is. `edge` is true where the chosen kappa is
the smallest or the largest of the grid, or beyond (tune=exact: where the interval of the choice begins at 0 or never
ends): the best may lie farther out. An interval's ends are breakpoints, at which candidates tie; what is said holds
strictly between them. One that begins at 0 holds at 0 too. The step functions themselves are no part of the file;
`curves` computes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]
"""One record of tuning.json."""
