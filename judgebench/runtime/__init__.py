"""Files, locks, time and processes: what every room rests on, and none of its subject."""
