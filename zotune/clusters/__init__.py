"""Ray clusters: token authentication, and a private local Ray for one process."""
