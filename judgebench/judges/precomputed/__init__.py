"""Judges that answered before: recorded readings, replayed answers, and panels of judges."""
