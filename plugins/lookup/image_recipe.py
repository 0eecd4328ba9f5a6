# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: image_recipe
author: plumbline.rag contributors (@plumbline)
version_added: 0.1.0
short_description: Complete recipes of the images that a plan asks for
description:
  - Reads C(catalog/images.yml) of this collection with the lock and the files it names, and returns what
    M(plumbline.rag.image_archive) takes, with the key that the finished image carries as its label.
options:
  _terms:
    description: Images of a plan, each with C(service), C(ref), C(recipe) and C(version).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the key of every image of this host
  ansible.builtin.debug:
    msg: "{{ query('plumbline.rag.image_recipe', rag_plan.hosts[inventory_hostname].images) | map(attribute='key') }}"
"""

RETURN = r"""
_raw:
  description: One dictionary an image, with C(key), C(base) and C(recipe); the last two are options of the module.
  type: list
  elements: dict
"""

import hashlib
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.plumbline.rag.plugins.module_utils._image_recipe import Base, Recipe, recipe_key

COLLECTION = Path(__file__).resolve().parents[2]


class LookupModule(LookupBase):
    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        catalog = yaml.safe_load((COLLECTION / "catalog/images.yml").read_text())
        return [complete(catalog, image) for image in self._flatten(terms)]


def complete(catalog: dict[str, Any], image: dict[str, str]) -> dict[str, Any]:
    """Join the catalog's entry of an image with the content of the files it names."""
    known = catalog["recipes"].get(image["recipe"], {"versions": {}})
    version = known["versions"].get(image["version"])
    if version is None:
        raise AnsibleLookupError(
            f"no recipe builds {image['ref']} (recipe {image['recipe']}, version {image['version']}). Versions that can "
            f"be built: {', '.join(known['versions']) or 'none'}. Choose one of them, or set rag_image_source to "
            "registry or archive."
        )
    lock = (COLLECTION / "catalog/locks" / version["lock"]).read_text()
    if hashlib.sha256(lock.encode()).hexdigest() != version["lock_sha256"]:
        raise AnsibleLookupError(
            f"catalog/locks/{version['lock']} is not the file that catalog/images.yml names: run make lock"
        )
    recipe = {
        **{name: value for name, value in known.items() if name not in ("versions", "contract", "exclude")},
        "ref": image["ref"],
        "service": image["service"],
        "lock": lock,
        "files": [_with_content(file) for file in known.get("files", [])],
    }
    return {"key": recipe_key(Base.of(catalog["base"]), Recipe.of(recipe)), "base": catalog["base"], "recipe": recipe}


def _with_content(file: dict[str, str]) -> dict[str, str]:
    content = file["content"] if "content" in file else (COLLECTION / file["source"]).read_text()
    return {"path": file["path"], "content": content, "mode": file.get("mode", "0644")}
