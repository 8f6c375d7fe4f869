"""The command line. Commands import heavy modules only when they run."""

from zotune.cli import bench_commands, record_commands, study_commands, theory_commands
from zotune.cli.group import main

__all__ = ["bench_commands", "main", "record_commands", "study_commands", "theory_commands"]
