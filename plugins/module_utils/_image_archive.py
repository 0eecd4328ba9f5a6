# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build image archives out of Debian packages and Python wheels: no container registry, no container engine."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Callable

from ansible_collections.plumbline.rag.plugins.module_utils._image_recipe import (
    EPOCH,
    SITE,
    Base,
    Recipe,
    archive_name,
    encode,
    image_config,
    manifest,
    recipe_key,
)

_BLOCK = 512
# Debian's name, and the name in an image's configuration, of each machine that uv knows.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

# What the tools say when a resource fails, and what an operator can do about it; the first match counts.
_FAILURES: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device",
        "there is no space left in {places}",
        "free space there, or set images_directory and images_cache_directory to a larger file system",
    ),
    (
        r"Hash mismatch",
        "the package index served a file whose hash is not the locked one",
        "use an index that carries the original files; never accept a file with another hash",
    ),
    (
        r"(?i)error sending request|dns error|connect error|failed to fetch: .http|client error|timed out",
        "the Python package index could not be reached",
        "set UV_DEFAULT_INDEX (and UV_FIND_LINKS) in images_build_environment, or set rag_image_source to archive or registry",
    ),
    (
        r"(?i)not found in the package registry|no solution found|no matching distribution|has no wheels",
        "the Python package index lacks a locked package",
        "use a complete index, or give its wheel in a directory named by UV_FIND_LINKS in images_build_environment",
    ),
    (
        r"(?i)apt-get update .*failed|failed to fetch|could not resolve|could not connect|unable to fetch",
        "the Debian mirror could not be reached",
        "set images_debian_mirror to a mirror that this host reaches",
    ),
    (
        r"(?i)keyring|NO_PUBKEY|signatures couldn't be verified",
        "the Debian archive's signature could not be checked",
        "install the package debian-archive-keyring on this host",
    ),
)


class BuildError(Exception):
    """An image could not be built; says what is missing and what to do."""


class Builder:
    """Builds archives into one directory; `environment` is added to that of the tools."""

    def __init__(
        self, directory: Path, cache: Path, base: Base, environment: dict[str, str], mirror: str | None = None
    ) -> None:
        self.directory = directory
        self.cache = cache
        self.base = base
        self.mirror = mirror
        self.machine = platform.machine()
        self.places = f"{directory} or {cache}"
        self.environment = {
            **os.environ,
            "UV_CACHE_DIR": str(cache / "uv"),
            "UV_SYSTEM_CERTS": "1",
            # a file that is linked into another image's tree while tar reads it counts as changed
            "UV_LINK_MODE": "copy",
            "UV_PYTHON_DOWNLOADS": "never",
            # Otherwise the sets inside byte code have another order at each run.
            "PYTHONHASHSEED": "0",
            **environment,
        }

    def plan(self, recipe: Recipe) -> dict[str, Any]:
        """Name the archive of a recipe, and its image when the archive is there already."""
        key = recipe_key(self.base, recipe)
        path = self.directory / archive_name(recipe, key)
        image_id = _image_id(path) if path.exists() else None
        return {
            "ref": recipe.ref,
            "key": key,
            "path": str(path),
            "image_id": image_id,
            "changed": image_id is None,
            "seconds": 0.0,
        }

    def build(self, recipes: list[Recipe]) -> list[dict[str, Any]]:
        """Build the archives that are not there yet, the base beside the first application layers."""
        with _resources(self.places):
            self.directory.mkdir(parents=True, exist_ok=True)
            self.cache.mkdir(parents=True, exist_ok=True)
            with _exclusive(self.directory / ".lock"):
                for leftover in (*self.directory.glob(".build-*"), *self.cache.glob(".base-*")):
                    _remove(leftover)
                plans = [self.plan(recipe) for recipe in recipes]
                missing = [(recipe, plan) for recipe, plan in zip(recipes, plans) if plan["changed"]]
                if missing:
                    self._build_missing(missing)
                return plans

    def _build_missing(self, missing: list[tuple[Recipe, dict[str, Any]]]) -> None:
        if self.machine not in _ARCHITECTURES:
            raise BuildError(f"images cannot be built on {self.machine}: use rag_image_source archive or registry")
        with tempfile.TemporaryDirectory(prefix=".build-", dir=self.directory) as folder:
            work = Path(folder)
            work.chmod(0o755)
            # Jobs start in this order, so none waits for one that has no worker yet.
            with ThreadPoolExecutor(max_workers=2) as pool:
                base = pool.submit(self._base_layer, work)
                trees = [pool.submit(self._install, recipe, work / plan["key"]) for recipe, plan in missing]
                archives = [
                    pool.submit(self._pack, recipe, plan, base, tree) for (recipe, plan), tree in zip(missing, trees)
                ]
                for job in archives:
                    job.result()

    def _pack(self, recipe: Recipe, plan: dict[str, Any], base: Future[Path], tree: Future[Path]) -> None:
        inputs = base.result(), tree.result()
        started = time.monotonic()
        partial = tree.result().with_suffix(".tar")
        plan["image_id"] = write_archive(partial, recipe, plan["key"], _ARCHITECTURES[self.machine], *inputs)
        shutil.rmtree(tree.result())
        partial.rename(plan["path"])
        plan["seconds"] = round(time.monotonic() - started, 1)

    def _base_layer(self, work: Path) -> Path:
        layer = self.cache / f"base-{self.base.key[:16]}.tar"
        if layer.exists():
            return layer
        partial = self.cache / f".base-{work.name}.tar"
        accounts = [
            f'echo {name}:x:{uid}:{uid}::/:/bin/sh >>"$1"/etc/passwd; echo {name}:x:{uid}: >>"$1"/etc/group'
            for name, uid in self.base.users
        ]
        command = [
            "mmdebstrap",
            "--format=tar",
            "--variant=minbase",
            # Without it the package usrmerge brings the whole of Perl.
            "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
            f"--include={','.join(('usr-is-merged', *self.base.packages))}",
            "--skip=output/dev",
            "--aptopt=APT::Install-Recommends false",
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "man", "locale")),
            *(f"--customize-hook={account}" for account in accounts),
            self.base.suite,
            str(partial),
            *([self.mirror] if self.mirror else []),
        ]
        try:
            self._run(command, {"SOURCE_DATE_EPOCH": str(EPOCH), "TMPDIR": str(work)})
            partial.rename(layer)
        finally:
            partial.unlink(missing_ok=True)
        return layer

    def _install(self, recipe: Recipe, tree: Path) -> Path:
        """Lay out the application layer under `tree`."""
        site = _inside(tree, SITE)
        site.mkdir(parents=True)
        lock = tree.with_suffix(".txt")
        lock.write_text(recipe.lock)
        self._run(
            [
                _uv(),
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--require-hashes",
                f"--python={sys.executable}",
                f"--python-version={self.base.python}",
                f"--python-platform={self.machine}-manylinux_2_36",
                f"--target={site}",
                f"--requirements={lock}",
            ]
        )
        for name in recipe.prune:
            _remove(site / name)
        for script in site.glob("bin/*"):
            _use_image_python(script)
        # Byte code saves a third of a start; only the image's own minor version can make it without the image.
        if f"{sys.version_info[0]}.{sys.version_info[1]}" == self.base.python:
            compile_all = [
                sys.executable,
                "-m",
                "compileall",
                "-qq",
                "-x/tests?/",
                "--invalidation-mode=unchecked-hash",
            ]
            self._run([*compile_all, "-s", str(tree), "-p", "/", str(site)], may_fail=True)
        for file in recipe.files:
            path = _inside(tree, file["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file["content"])
            path.chmod(int(file.get("mode") or "0644", 8))
        for link, target in recipe.links.items():
            path = _inside(tree, link)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        for directory in recipe.directories:
            path = _inside(tree, directory["path"])
            path.mkdir(parents=True, exist_ok=True)
            owner = directory.get("owner") or 0
            os.chown(path, owner, owner)
        return tree

    def _run(self, command: list[str], extra: dict[str, str] | None = None, may_fail: bool = False) -> None:
        environment = {**self.environment, **(extra or {})}
        try:
            # run_command starts no session of its own
            # pylint: disable-next=ansible-bad-function
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                # mmdebstrap signals its whole process group when it fails.
                start_new_session=True,
            )
        except FileNotFoundError:
            raise BuildError(f"{command[0]} is not installed on this host: install the package {command[0]}") from None
        if done.returncode and not may_fail:
            raise BuildError(explain(Path(command[0]).name, done.stderr, self.places))


def explain(tool: str, output: str, places: str) -> str:
    """Turn a tool's last words into what is wrong and what to do."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E:", "error", "cause", "W:"))]
    words = " | ".join((errors or lines)[-6:])
    for pattern, problem, remedy in _FAILURES:
        if re.search(pattern, output):
            return f"{problem.format(places=places)}: {remedy}. {tool} said: {words}"
    return f"{tool} failed. It said: {words}"


def write_archive(path: Path, recipe: Recipe, key: str, architecture: str, base: Path, tree: Path) -> str:
    """Write an archive as `docker save` does; returns the image id. `docker load` skips a layer it knows."""
    with open(path, "w+b") as archive:
        layers = [
            _member(archive, "base/layer.tar", lambda out: _copy(base, out)),
            _member(archive, "app/layer.tar", lambda out: _pack(tree, out)),
        ]
        config = encode(image_config(recipe, key, architecture, layers))
        image_id = hashlib.sha256(config).hexdigest()
        _member(archive, f"{image_id}.json", lambda out: out.write(config))
        names = encode(manifest(recipe, image_id, ["base/layer.tar", "app/layer.tar"]))
        _member(archive, "manifest.json", lambda out: out.write(names))
        archive.write(b"\0" * 2 * _BLOCK)
    return f"sha256:{image_id}"


class _Hashing:
    """A writer that knows the size and the hash of what went through it."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out = out
        self.size = 0
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.size += len(data)
        self.sha256.update(data)
        return self.out.write(data)


def _member(archive: IO[bytes], name: str, write: Callable[[Any], object]) -> str:
    """Append a member whose size is known only once it is written; returns its SHA-256."""
    start = archive.tell()
    archive.write(b"\0" * _BLOCK)
    content = _Hashing(archive)
    write(content)
    archive.write(b"\0" * (-content.size % _BLOCK))
    header = tarfile.TarInfo(name)
    header.size = content.size
    header.mtime = EPOCH
    archive.seek(start)
    archive.write(header.tobuf(tarfile.GNU_FORMAT))
    archive.seek(0, os.SEEK_END)
    return content.sha256.hexdigest()


def _copy(source: Path, out: Any) -> None:
    with open(source, "rb") as stream:
        shutil.copyfileobj(stream, out, 1 << 20)


def _pack(tree: Path, out: Any) -> None:
    """Write a tree as a layer that depends on nothing but its content."""
    command = ["tar", "--create", "--format=gnu", "--sort=name", f"--mtime=@{EPOCH}", "--numeric-owner"]
    command += ["--mode=u+rwX,go+rX,go-w", f"--directory={tree}", "."]
    # run_command keeps all output in memory, and a layer has hundreds of megabytes
    # pylint: disable-next=ansible-bad-function
    with tempfile.TemporaryFile() as said, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as tar:
        if tar.stdout:
            shutil.copyfileobj(tar.stdout, out, 1 << 20)
        if tar.wait():
            said.seek(0)
            raise BuildError(f"tar failed on {tree}: {said.read().decode(errors='replace').strip()}")


def _image_id(path: Path) -> str:
    with tarfile.open(path, "r:") as archive:
        member = archive.extractfile("manifest.json")
        document: list[dict[str, str]] = json.load(member) if member else []
    return "sha256:" + document[0]["Config"].removesuffix(".json")


def _uv() -> str:
    """The uv beside this interpreter, as in the collection's own environment, or the one on PATH."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else "uv"


def _inside(tree: Path, path: str) -> Path:
    return tree / path.lstrip("/")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _use_image_python(script: Path) -> None:
    """uv starts scripts with the host's interpreter, which the image does not have."""
    content = script.read_bytes()
    if content.startswith(b"#!") and b"python" in content.split(b"\n", 1)[0]:
        script.unlink()
        script.write_bytes(b"#!/usr/bin/python3\n" + content.split(b"\n", 1)[1])
        script.chmod(0o755)


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _resources(places: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise BuildError(explain("the builder", "No space left on device", places)) from error
        raise BuildError(
            f"{error.strerror} on {error.filename or places}: "
            "set images_directory and images_cache_directory to writable places"
        ) from error
