"""Black-box functions that nobody here wrote, and what other solvers make of them.

``zotune bench blackbox`` gives every solver the same evaluations of the same functions and counts
how many problems each solves.
"""
