"""Ray of this machine and of others: tokens, and a Ray of our own for one process."""
