"""``zotune doctor``: check this machine for running studies, with advice."""
