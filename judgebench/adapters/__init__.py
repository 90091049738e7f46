"""Calibrated judges inside other evaluation frameworks; each module needs its framework, an extra
of its name."""
