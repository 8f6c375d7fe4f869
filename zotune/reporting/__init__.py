"""Figures, tables and HTML pages, made from MLflow records."""
