"""``python -m zotune.cli``."""

from zotune.cli import main

main()
