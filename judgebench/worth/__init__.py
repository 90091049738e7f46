"""Judges beside humans: the human ceiling, agreement, forecasts, variance by range, systems, and few labels."""
