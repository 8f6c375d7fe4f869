"""The adapters to Ray Tune: objectives that travel, the trainable, the search space."""
