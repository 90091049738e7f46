"""Studies: Optuna under Hydra, several workers on one study, and what a sweep leaves behind."""
