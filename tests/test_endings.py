"""A command that has done its work ends at once."""

from __future__ import annotations

import subprocess
import sys


def test_a_command_does_not_look_for_garbage_when_it_ends() -> None:
    code = (
        "import atexit, gc\n"
        "atexit.register(lambda: print('frozen:', gc.get_freeze_count() > 1000))\n"  # after ours
        "from zotune.cli import main\n"
        "main(['--version'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("frozen: True\n")
