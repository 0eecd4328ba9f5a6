# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprints of keys, of which gpg has printed the expected values."""

from __future__ import annotations

import base64

import pytest

from ansible_collections.plumbline.rag.plugins.module_utils import _openpgp

# A key made for this test alone; its fingerprint by `gpg --fingerprint`.
ARMORED = """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawyw0xYJKwYBBAHaRw8BAQdAkl89/KXr1fV3ATZjWuPYp8cBRX86iho3V2G8
Fw1PrUi0F3Rlc3QgPHRlc3RAZXhhbXBsZS5vcmc+iJAEExYIADgWIQTYd4LekGS5
gVhKX5mfvw6K8o0VDAUCawyw0wIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAK
CRCfvw6K8o0VDIYRAQDUdF7oldiUqPsToNRr78ttnJCPaGP8Csu2a72ccfIQ7gD8
CwFDWDBzAWBdgjMrhUuApPCbmCbK49vE+KpAIBcyRgg=
=DXUF
-----END PGP PUBLIC KEY BLOCK-----
"""
FINGERPRINT = "D87782DE9064B981584A5F999FBF0E8AF28D150C"
BINARY = base64.b64decode("".join(ARMORED.splitlines()[2:-2]))


@pytest.mark.parametrize("content", [ARMORED.encode(), ARMORED.replace("\n", "\r\n").encode(), BINARY])
def test_a_key(content: bytes) -> None:
    assert _openpgp.fingerprints(content) == [FINGERPRINT]


def test_every_key_of_a_file_counts() -> None:
    assert _openpgp.fingerprints(BINARY + BINARY) == [FINGERPRINT, FINGERPRINT]


def test_a_long_packet_in_the_new_format() -> None:
    # tag 6 and a length of five bytes, around the key packet of the old format
    length = BINARY[1]
    packet = b"\xc6\xff" + length.to_bytes(4, "big") + BINARY[2 : 2 + length]
    assert _openpgp.fingerprints(packet) == [FINGERPRINT]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>not found</html>",
        BINARY[:2],
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nnothing\n",
        # version 6 of the format
        b"\x98\x01\x06",
    ],
)
def test_what_is_no_key(content: bytes) -> None:
    with pytest.raises(ValueError, match="OpenPGP"):
        _openpgp.fingerprints(content)
