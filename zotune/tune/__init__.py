"""The adapters to Ray Tune: the trainable, its workers, the search space, plugins of users."""
