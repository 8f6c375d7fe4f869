"""Claims of a study as data, and verdicts on them with their uncertainty."""
