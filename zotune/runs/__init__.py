"""``minimize``, ``Minimizer``, and ``Run``: runs in this process, their checkpoints and results."""
