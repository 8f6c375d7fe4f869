"""``make release``: check that a version is ready, show its notes, and tag it if asked to.

Without ``--tag`` nothing is changed. With it, an annotated tag ``v<version>`` is made, with the
notes as its message; with ``--index`` too, README and getting-started install from the package
index from this version on, which is committed before. A wheel of what is committed is left in
``dist``. Pushing the tag and uploading the wheel stay with whoever releases.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))

import installing

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
    return found + installing.unknown(root)


def install_from_an_index(root: Path, version: str) -> None:
    """Change the documents, and commit them."""
    if changed := installing.from_an_index(root):
        for path, text in changed.items():
            path.write_text(text, encoding="utf-8")
        named = [str(path.relative_to(root)) for path in changed]
        git(
            root, "commit", "--quiet", "-m", f"zotune {version} is installed from the index", *named
        )
        print(f"committed: {' and '.join(named)} install from the index")


def wheel(root: Path) -> Path:
    """A wheel of what is committed, in ``dist``; files that lie around are not in it."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=root, capture_output=True, check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(root / "dist")]
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
        subprocess.run([*pip, *options, folder], check=True)
    (made,) = (root / "dist").glob(f"*-{version_of(root)}-*.whl")
    return made


def git(root: Path, *words: str) -> str:
    """What git answers."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main(arguments: list[str] | None = None) -> int:
    """Print notes and obstacles; build, and tag if there are none and a tag was asked for."""
    asked = parser().parse_args(arguments)
    root: Path = asked.root
    if asked.wheel:
        print(f"wheel: {wheel(root)}")
        return 0
    version = version_of(root)
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    text = notes(changelog, version) or notes(changelog, UNRELEASED)
    print(f"zotune {version}\n\n{text}\n")
    if found := obstacles(root, version):
        print("\n".join(f"not ready: {each}" for each in found), file=sys.stderr)
        return 1
    if not asked.tag:
        print(f"ready; `make release TAG=yes` makes the tag v{version}\nwheel: {wheel(root)}")
        return 0
    if asked.index:
        install_from_an_index(root, version)
    message = f"zotune {version}\n\n{text}"
    git(root, "tag", "-a", f"v{version}", "--cleanup=verbatim", "-m", message)
    print(f"wheel: {wheel(root)}")
    print(f"tagged v{version}; to publish it: git push origin v{version}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--tag", action="store_true", help="make the tag; a dry run without it")
    made.add_argument("--index", action="store_true", help="it will be on a package index")
    made.add_argument("--wheel", action="store_true", help="only leave a wheel in dist")
    made.add_argument("--root", type=Path, default=Path(__file__).parent.parent)
    return made


if __name__ == "__main__":
    sys.exit(main())
