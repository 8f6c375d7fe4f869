"""Results of trials, read from checkpoints or MLflow; used by the terminal, reports and pages."""
