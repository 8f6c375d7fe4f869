"""Benchmark on third-party black-box functions, in comparison with other solvers.

``zotune bench blackbox`` gives every solver the same evaluations of the same functions and counts
how many problems each solves.
"""
