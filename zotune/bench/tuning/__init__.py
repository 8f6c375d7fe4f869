"""The cost of tuning: a study with one total budget, compared with the best in hindsight."""
