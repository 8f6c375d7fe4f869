"""Figures, tables and pages from the MLflow records alone."""
