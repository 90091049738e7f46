"""Recorded judges of other people, for scripts/external.py."""
