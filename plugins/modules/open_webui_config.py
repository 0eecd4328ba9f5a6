#!/usr/bin/python
# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconcile the settings that Open WebUI keeps in its database."""

from __future__ import annotations

DOCUMENTATION = r"""
module: open_webui_config
short_description: Bring Open WebUI's stored retrieval settings to what the plan says
description:
  - After its first start Open WebUI takes embedding, reranking and chunking settings from its database, and ignores
    the environment. This module compares them over the admin API and writes what differs.
  - It sends only fields of the plan, never C(null) values and never the web search settings, and reads everything again
    after writing, because Open WebUI accepts settings that it then does not hold.
  - With O(config_owner=inventory) it also closes sign-up.
  - A change reaches the process that answers; other workers and replicas keep their old functions until they restart.
version_added: 0.1.0
author: plumbline.rag contributors (@plumbline)
requirements: [httpx, docker]
options:
  url:
    description: Root of Open WebUI, as its own network sees it.
    type: str
    required: true
  container:
    description: Name of the container, when the host in O(url) is one that only the network O(network) resolves.
    type: str
  network:
    description: The stack's Docker network.
    type: str
    default: ""
  admin_email:
    description: The administrator's e-mail address.
    type: str
    required: true
  admin_password:
    description: The administrator's password.
    type: str
    required: true
  config_owner:
    description: Whether the inventory writes the settings, or the page does and drift is only returned.
    type: str
    choices: [inventory, ui]
    default: inventory
  settings:
    description:
      - The plan's C(open_webui.settings) with the fields C(embedding), C(retrieval) and C(secret_fields).
    type: dict
    required: true
  secrets:
    description: Values of the secrets that C(secret_fields) names.
    type: dict
    default: {}
  timeout:
    description: Seconds to wait until Open WebUI answers.
    type: int
    default: 300
attributes:
  check_mode:
    description: Compares and writes nothing.
    support: full
  diff_mode:
    description: Shows the fields that differ, secrets masked.
    support: full
"""

EXAMPLES = r"""
- name: Make the stored settings agree with the plan
  plumbline.rag.open_webui_config:
    url: "http://{{ open_webui_spec.container }}:{{ open_webui_spec.port }}"
    container: "{{ open_webui_spec.container }}"
    network: "{{ rag_plan.network }}"
    admin_email: "{{ open_webui_spec.admin_email }}"
    admin_password: "{{ open_webui_secrets.open_webui_admin_password }}"
    config_owner: "{{ open_webui_spec.config_owner }}"
    settings: "{{ open_webui_spec.settings }}"
    secrets: "{{ open_webui_secrets }}"
  notify: restart open webui
"""

RETURN = r"""
drift:
  description: The fields that were not as the plan says, with secrets masked.
  returned: success
  type: list
  elements: dict
  sample:
    - {name: TOP_K, actual: 3, wanted: 20}
"""

import asyncio
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.plumbline.rag.plugins.module_utils import _docker, _http, _reconcile
from ansible_collections.plumbline.rag.plugins.module_utils._open_webui import OpenWebUI


async def _run(arguments: dict[str, Any], write: bool) -> _reconcile.Result:
    name = arguments["container"]
    containers = await asyncio.to_thread(_docker.Docker().containers, [name]) if name else {}
    secrets = [*arguments["secrets"].values(), arguments["admin_password"]]
    resolve = _docker.addresses(containers, arguments["network"])
    async with _http.Http(secrets=secrets, resolve=resolve) as http:
        api = OpenWebUI(http, arguments["url"], arguments["admin_email"], arguments["admin_password"])
        await api.wait_ready(arguments["timeout"])
        return await _reconcile.reconcile(api, arguments["settings"], arguments["secrets"], write=write)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "container": {"type": "str"},
            "network": {"type": "str", "default": ""},
            "admin_email": {"type": "str", "required": True},
            "admin_password": {"type": "str", "required": True, "no_log": True},
            "config_owner": {"type": "str", "choices": ["inventory", "ui"], "default": "inventory"},
            "settings": {"type": "dict", "required": True},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    for library, error in (("httpx", _http.HTTPX_ERROR), ("docker", _docker.DOCKER_ERROR)):
        if error is not None:
            module.fail_json(msg=missing_required_lib(library), exception=str(error))
    owned = module.params["config_owner"] == "inventory"
    try:
        result = asyncio.run(_run(module.params, write=owned and not module.check_mode))
    except _http.ServiceError as error:
        module.fail_json(msg=str(error))
    drift = _reconcile.shown(result.drift)
    before, after = ({one["name"]: one[side] for one in drift} for side in ("actual", "wanted"))
    changed = result.changed or (owned and module.check_mode and bool(drift))
    module.exit_json(changed=changed, drift=drift, diff={"before": before, "after": after} if changed else {})


if __name__ == "__main__":
    main()
