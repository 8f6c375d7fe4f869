"""``make release``: check that a version is ready, show its notes, and tag it if asked to.

Without ``--tag`` nothing is changed. With it, an annotated tag ``v<version>`` is made, with the
notes as its message. Pushing the tag and uploading files stay with whoever releases.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

UNRELEASED = "Unreleased"


def version_of(root: Path) -> str:
    """The version that the package declares."""
    text = (root / "zotune" / "_version.py").read_text(encoding="utf-8")
    return re.findall(r'__version__ = "(.+)"', text)[0]


def notes(changelog: str, version: str) -> str:
    """The section of a version in the changelog, without its heading; empty if there is none."""
    heading = rf"^## \[{re.escape(version)}\][^\n]*\n"
    found = re.search(rf"{heading}(.*?)(?=^## \[|\Z)", changelog, re.DOTALL | re.MULTILINE)
    return found.group(1).strip() if found else ""


def obstacles(root: Path, version: str) -> list[str]:
    """Why this version cannot be released yet."""
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    found = []
    if not notes(changelog, version):
        found.append(
            f"CHANGELOG.md has no section [{version}]: rename [{UNRELEASED}], with today's date"
        )
    elif notes(changelog, UNRELEASED):
        found.append(f"CHANGELOG.md still has lines under [{UNRELEASED}]: move them")
    if f"\nversion: {version}\n" not in citation:
        found.append(f"CITATION.cff names another version than {version}: change it")
    if git(root, "status", "--porcelain"):
        found.append("there are changes that are not committed: commit them")
    if git(root, "tag", "--list", f"v{version}"):
        found.append(f"tag v{version} exists: raise __version__ in zotune/_version.py")
    return found


def git(root: Path, *words: str) -> str:
    """What git answers."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    """Print notes and obstacles; tag if there are none and a tag was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", action="store_true", help="make the tag; a dry run without it")
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent)
    asked = parser.parse_args(arguments)
    version = version_of(asked.root)
    changelog = (asked.root / "CHANGELOG.md").read_text(encoding="utf-8")
    text = notes(changelog, version) or notes(changelog, UNRELEASED)
    print(f"zotune {version}\n\n{text}\n")
    if found := obstacles(asked.root, version):
        print("\n".join(f"not ready: {each}" for each in found), file=sys.stderr)
        return 1
    if not asked.tag:
        print(f"ready; `make release TAG=yes` makes the tag v{version}")
        return 0
    message = f"zotune {version}\n\n{text}"
    git(asked.root, "tag", "-a", f"v{version}", "--cleanup=verbatim", "-m", message)
    print(f"tagged v{version}; to publish it: git push origin v{version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
