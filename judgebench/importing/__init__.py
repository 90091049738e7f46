"""Results that other tools wrote, and tables of one's own: which column holds what, and the run
that they stand for."""
