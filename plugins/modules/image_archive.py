#!/usr/bin/python
# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_archive
short_description: Build container image archives from Debian packages and Python wheels
version_added: 0.1.0
description:
  - Builds archives in the format of C(docker save), for hosts that reach a package index and no container registry.
  - Needs neither a container engine nor a container file. The lower layer is a minimal Debian made by C(mmdebstrap) and is
    the same in all images; the upper layer holds the wheels of a hashed requirements file and the files of the recipe.
  - Equal inputs have an equal key, and an archive whose key is there already is left alone.
  - Archives appear under their final name only when they are complete, so an interrupted run can be run again.
author:
  - plumbline.rag contributors (@plumbline)
requirements:
  - mmdebstrap
  - uv
options:
  base:
    description: The layer that all images share.
    type: dict
    required: true
    suboptions:
      suite:
        description: Debian release.
        type: str
        required: true
      python:
        description: Minor version of the Python in that release.
        type: str
        required: true
      packages:
        description: Packages beside the essential ones.
        type: list
        elements: str
        default: []
      users:
        description: Accounts to add, name to numeric id.
        type: dict
        default: {}
  images:
    description: The images to build.
    type: list
    elements: dict
    required: true
    suboptions:
      ref:
        description: Reference under which the image is loaded.
        type: str
        required: true
      service:
        description: Name that the archive's file name starts with.
        type: str
        required: true
      lock:
        description: Content of a requirements file with hashes. It is installed as it is, without resolving dependencies.
        type: str
        required: true
      prune:
        description: Paths below C(/opt/app) that are left out.
        type: list
        elements: str
      links:
        description: Symbolic links, path to target.
        type: dict
      directories:
        description: Directories to create.
        type: list
        elements: dict
        suboptions:
          path:
            description: Absolute path in the image.
            type: str
            required: true
          owner:
            description: Numeric id of the owning user and group.
            type: int
      files:
        description: Text files to create.
        type: list
        elements: dict
        suboptions:
          path:
            description: Absolute path in the image.
            type: str
            required: true
          content:
            description: Content of the file.
            type: str
            required: true
          mode:
            description: Permission bits, as an octal string.
            type: str
      env:
        description: Environment of the container.
        type: dict
      entrypoint:
        description: Program that is always run.
        type: list
        elements: str
      cmd:
        description: Arguments when the container names none.
        type: list
        elements: str
      user:
        description: User and group of the process.
        type: str
      workdir:
        description: Working directory.
        type: str
      ports:
        description: TCP ports that the service listens on.
        type: list
        elements: int
      volumes:
        description: Paths that hold data.
        type: list
        elements: str
      stop_signal:
        description: Signal that asks the service to stop.
        type: str
  directory:
    description: Where the archives go.
    type: path
    default: /var/lib/plumbline/images
  cache:
    description: Where the base layer and uv's downloads are kept.
    type: path
    default: /var/cache/plumbline
  environment:
    description: Environment added for uv and mmdebstrap, such as C(UV_DEFAULT_INDEX), C(UV_FIND_LINKS) or C(HTTPS_PROXY).
    type: dict
    default: {}
  mirror:
    description: Debian mirror for the base layer; otherwise the one mmdebstrap chooses.
    type: str
attributes:
  check_mode:
    support: full
    description: Reports what would be built.
  diff_mode:
    support: none
    description: Archives have no text to compare.
"""

EXAMPLES = r"""
- name: Build the archives of two images
  plumbline.rag.image_archive:
    base: {suite: bookworm, python: "3.11", packages: [python3, ca-certificates]}
    images:
      - ref: localhost/example/embedder:1
        service: embedder
        lock: "{{ lookup('ansible.builtin.file', 'embedder.txt') }}"
        entrypoint: [python3, -m, embedder]
        user: "65534:65534"
        ports: [8000]
      - ref: localhost/example/proxy:1
        service: proxy
        lock: "{{ lookup('ansible.builtin.file', 'proxy.txt') }}"
        entrypoint: [proxy]
    environment:
      UV_FIND_LINKS: /srv/wheels
"""

RETURN = r"""
images:
  description: One entry for each of the O(images), in their order.
  type: list
  elements: dict
  returned: success
  contains:
    ref:
      description: Reference under which the archive loads.
      type: str
      sample: localhost/example/embedder:1
    key:
      description: SHA-256 over everything that goes into the image; also the image's label C(org.plumbline.recipe).
      type: str
    path:
      description: The archive.
      type: str
      sample: /var/lib/plumbline/images/embedder-0f3c5d8a9b1e2c47.tar
    image_id:
      description: Id of the image. Null in check mode when it would be built.
      type: str
    changed:
      description: Whether the archive was built, or would be in check mode.
      type: bool
    seconds:
      description: How long this archive took.
      type: float
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.plumbline.rag.plugins.module_utils._image_archive import Builder, BuildError
from ansible_collections.plumbline.rag.plugins.module_utils._image_recipe import Base, Recipe

STRINGS = {"type": "list", "elements": "str"}
IMAGE = {
    "ref": {"type": "str", "required": True},
    "service": {"type": "str", "required": True},
    "lock": {"type": "str", "required": True},
    "prune": STRINGS,
    "links": {"type": "dict"},
    "directories": {
        "type": "list",
        "elements": "dict",
        "options": {
            "path": {"type": "str", "required": True},
            "owner": {"type": "int"},
        },
    },
    "files": {
        "type": "list",
        "elements": "dict",
        "options": {
            "path": {"type": "str", "required": True},
            "content": {"type": "str", "required": True},
            "mode": {"type": "str"},
        },
    },
    "env": {"type": "dict"},
    "entrypoint": STRINGS,
    "cmd": STRINGS,
    "user": {"type": "str"},
    "workdir": {"type": "str"},
    "ports": {"type": "list", "elements": "int"},
    "volumes": STRINGS,
    "stop_signal": {"type": "str"},
}
BASE = {
    "suite": {"type": "str", "required": True},
    "python": {"type": "str", "required": True},
    "packages": {"type": "list", "elements": "str", "default": []},
    "users": {"type": "dict", "default": {}},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "base": {"type": "dict", "required": True, "options": BASE},
            "images": {"type": "list", "elements": "dict", "required": True, "options": IMAGE},
            "directory": {"type": "path", "default": "/var/lib/plumbline/images"},
            "cache": {"type": "path", "default": "/var/cache/plumbline"},
            "environment": {"type": "dict", "default": {}},
            "mirror": {"type": "str"},
        },
        supports_check_mode=True,
    )
    given = module.params
    builder = Builder(
        Path(given["directory"]), Path(given["cache"]), Base.of(given["base"]), given["environment"], given["mirror"]
    )
    recipes = [Recipe.of(image) for image in given["images"]]
    try:
        images = [builder.plan(recipe) for recipe in recipes] if module.check_mode else builder.build(recipes)
    except BuildError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=any(image["changed"] for image in images), images=images)


if __name__ == "__main__":
    main()
