"""Studies that ship with zotune, one YAML file a question; the package is ``zotune.studies``."""

if __name__ == "studies":
    raise ImportError(
        "this folder is the package zotune.studies, not a package 'studies'; import zotune.studies"
    )
