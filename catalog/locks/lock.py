"""Lock the Python requirements of catalog/images.yml: hashed, complete, without the name of any index.

Usage: python catalog/locks/lock.py [RECIPE...]     (all recipes when none is named)
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

LOCKS = Path(__file__).resolve().parent
IMAGES = LOCKS.parent / "images.yml"


def uv(*arguments: str, text: str = "") -> str:
    return subprocess.run(["uv", *arguments], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def compile_lock(requirements: list[str], python: str, *options: str) -> str:
    return uv(
        "pip", "compile", "-", "--quiet", "--generate-hashes", "--no-header", "--no-annotate",
        "--python-version", python, "--python-platform", "x86_64-manylinux_2_36", "--only-binary", ":all:",
        *options, text="\n".join(requirements) + "\n",
    )  # fmt: skip


def requirements_inside(wheel: str, name: str, python: str) -> list[str]:
    """The lines of a requirements file that a wheel carries beside its packages."""
    with tempfile.TemporaryDirectory() as folder:
        uv("pip", "install", "--quiet", "--no-deps", "--target", folder, "--python-version", python, wheel)
        return (Path(folder) / name).read_text().splitlines()


def lock(recipe: dict[str, Any], version: dict[str, Any], python: str) -> str:
    skip = [word for name in recipe.get("exclude", []) for word in ("--no-emit-package", name)]
    alone = version.get("requirements_alone", [])
    inside = version.get("requirements_in_wheel")
    if inside:
        alone = version["requirements"]
        wanted = requirements_inside(alone[0], inside, python)
    else:
        wanted = version["requirements"]
    text = compile_lock(wanted, python, *skip)
    return text + (compile_lock(alone, python, "--no-deps") if alone else "")


def main() -> None:
    catalog = yaml.safe_load(IMAGES.read_text())
    python = catalog["base"]["python"]
    text = IMAGES.read_text()
    for name, recipe in catalog["recipes"].items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        for version in recipe["versions"].values():
            content = lock(recipe, version, python)
            (LOCKS / version["lock"]).write_text(content)
            digest = hashlib.sha256(content.encode()).hexdigest()
            text = re.sub(rf"(lock: {re.escape(version['lock'])}\n +lock_sha256: ).*", rf'\g<1>"{digest}"', text)
    IMAGES.write_text(text)


if __name__ == "__main__":
    main()
