"""Objectives: the base class, wrapped callables, and the registered problems."""

from zotune.objectives.callables import NUMPY, TORCH, CallableObjective, objective
from zotune.objectives.checks import DTYPES, dimension_of, dtype_name, parse_dtype, positive_int
from zotune.objectives.problems import (
    PROBLEMS,
    Problem,
    Settings,
    build_any_problem,
    build_problem,
    complete_problem,
    problem_mapping,
    register,
)
from zotune.objectives.protocol import AnyObjective, Objective

__all__ = [
    "DTYPES",
    "NUMPY",
    "PROBLEMS",
    "TORCH",
    "AnyObjective",
    "CallableObjective",
    "Objective",
    "Problem",
    "Settings",
    "build_any_problem",
    "build_problem",
    "complete_problem",
    "dimension_of",
    "dtype_name",
    "objective",
    "parse_dtype",
    "positive_int",
    "problem_mapping",
    "register",
]
