"""A signed package repository of NVIDIA's layout that holds empty packages with doubles of their programs."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
from pathlib import Path

VERSION = "1.20.0-1"
PROGRAMS = {
    "nvidia-container-toolkit-base": ["nvidia-ctk"],
    "nvidia-container-toolkit": ["nvidia-container-runtime-hook"],
}
PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)


def make(folder: Path, doubles: Path) -> str:
    """Make the repository in ``folder``, with its key; returns the key's fingerprint."""
    pool = folder / "deb" / "amd64"
    pool.mkdir(parents=True)
    entries = [_package(name, pool, folder / "build" / name, doubles) for name in PACKAGES]
    index = "\n".join(entries).encode()
    (pool / "Packages").write_bytes(index)
    (pool / "Packages.gz").write_bytes(gzip.compress(index))
    sums = [
        f" {hashlib.sha256((pool / name).read_bytes()).hexdigest()} {(pool / name).stat().st_size} {name}"
        for name in ("Packages", "Packages.gz")
    ]
    (folder / "Release").write_text("\n".join(["Origin: test", "Architectures: amd64", "SHA256:", *sums, ""]))
    return _sign(folder, pool)


def _package(name: str, pool: Path, build: Path, doubles: Path) -> str:
    control = f"Package: {name}\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: test <test@example.org>\nDescription: double\n"
    (build / "DEBIAN").mkdir(parents=True)
    (build / "DEBIAN" / "control").write_text(control)
    for program in PROGRAMS.get(name, []):
        (build / "usr" / "bin").mkdir(parents=True)
        target = build / "usr" / "bin" / program
        target.write_bytes((doubles / program).read_bytes())
        target.chmod(0o755)
    package = pool / f"{name}_{VERSION}_amd64.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", build, package], check=True, capture_output=True)
    content = package.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return f"{control}Filename: ./{package.name}\nSize: {len(content)}\nSHA256: {digest}\n"


def _sign(folder: Path, pool: Path) -> str:
    home = folder / "gnupg"
    home.mkdir(mode=0o700)

    def gpg(*arguments: str) -> str:
        command = ["gpg", "--batch", "--homedir", str(home), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout

    gpg("--passphrase", "", "--quick-generate-key", "test <test@example.org>", "rsa3072", "sign", "never")
    (folder / "gpgkey").write_text(gpg("--armor", "--export"))
    gpg("--clearsign", "--output", str(pool / "InRelease"), str(folder / "Release"))
    listing = gpg("--with-colons", "--fingerprint")
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)
    return next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr"))
