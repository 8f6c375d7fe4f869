"""Foundations without dependencies on other rooms: budgets, states, curves, files, processes."""
