"""What tuning costs: one total for a study, beside the best configuration in hindsight."""
