# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprints of OpenPGP keys, read without gpg: a repository's key is compared before anything trusts it. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator

_ARMOR = re.compile(r"-----BEGIN PGP PUBLIC KEY BLOCK-----\s*\n(?:[^\n]*:[^\n]*\n)*\s*\n(.*?)\n=", re.DOTALL)
_PUBLIC_KEY = 6
_VERSION = 4


def fingerprints(content: bytes) -> list[str]:
    """The fingerprints of the primary keys in a key file, armored or not. Raises ValueError when it is none."""
    data = _dearmored(content)
    try:
        found = [_fingerprint(body) for tag, body in _packets(data) if tag == _PUBLIC_KEY]
    except IndexError:
        raise ValueError("the file is not an OpenPGP key: a packet is cut off") from None
    if not found:
        raise ValueError("the file holds no OpenPGP public key")
    return found


def _dearmored(content: bytes) -> bytes:
    text = content.decode("ascii", "replace").replace("\r\n", "\n")
    if "-----BEGIN PGP" not in text:
        return content
    try:
        return b"".join(base64.b64decode(block, validate=False) for block in _ARMOR.findall(text))
    except binascii.Error as error:
        raise ValueError(f"the file is not an OpenPGP key: {error}") from None


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and body of each packet, by RFC 4880, 4.2; partial lengths do not occur in keys."""
    position = 0
    while position < len(data):
        header = data[position]
        if not header & 0x80:
            raise ValueError("the file is not an OpenPGP key")
        if header & 0x40:
            tag, first = header & 0x3F, data[position + 1]
            size = 1 if first < 192 else 2 if first < 224 else 5
            raw = data[position + 1 : position + 1 + size]
            length = (
                first
                if size == 1
                else ((first - 192) << 8) + raw[1] + 192
                if size == 2
                else int.from_bytes(raw[1:], "big")
            )
        else:
            tag, size = (header & 0x3C) >> 2, 1 << (header & 3)
            length = int.from_bytes(data[position + 1 : position + 1 + size], "big")
        start = position + 1 + size
        yield tag, data[start : start + length]
        position = start + length


def _fingerprint(body: bytes) -> str:
    if body[0] != _VERSION:
        raise ValueError(f"the file holds an OpenPGP key of version {body[0]}, which is not supported")
    # SHA-1 is what the format defines; it names the key and secures nothing here that a checksum would not
    return hashlib.new("sha1", b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper()
