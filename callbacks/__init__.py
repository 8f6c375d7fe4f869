"""Ray Tune callbacks of zotune; import them as ``zotune.callbacks``."""

if __name__ == "callbacks":
    raise ImportError(
        "this folder is the package zotune.callbacks, not a package 'callbacks'; "
        "import zotune.callbacks"
    )
