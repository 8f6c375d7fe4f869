"""Speed as ratios, measured beside the limit or the peer in one process."""
