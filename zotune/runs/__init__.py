"""Runs from start to end in this process, and back from disk."""
