"""What everything stands on: budgets, differences, states, curves, files and processes."""
