"""``zotune doctor``: what this machine has, what that means for a study, and what to do."""
