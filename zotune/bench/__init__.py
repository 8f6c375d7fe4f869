"""``zotune bench``: speed as ratios to a limit or a peer, measured in one process."""
