# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.plumbline.rag.plugins.module_utils import _spec, _wiring
from ansible_collections.plumbline.rag.plugins.plugin_utils import _controller

# secret of the plan -> (variable that gives it, what a generated one begins with)
GENERATED = {
    "postgres_password": (None, ""),
    "litellm_master_key": ("rag_litellm_master_key", "sk-"),
    "embedder_api_key": ("rag_embedder_api_key", ""),
    "reranker_api_key": ("rag_reranker_api_key", ""),
    "open_webui_secret_key": ("rag_open_webui_secret_key", ""),
    "open_webui_admin_password": ("rag_open_webui_admin_password", ""),
}


class ActionModule(ActionBase):
    """Give a host the secrets of its installation; generate missing ones once and keep them."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        host = task_vars["inventory_hostname"]
        hosts, groups = _controller.inventory(task_vars)
        specs = _spec.build_specs(hosts, groups)[0]
        spec = next(spec for spec in specs.values() if host in spec.hosts)
        folder = _controller.inventory_folder(task_vars, host)
        # a hidden folder, because every other file of an inventory folder is read as an inventory
        path = Path(spec["rag_secrets_file"] or folder / ".secrets" / f"{spec.installation}.yml").expanduser()

        given = {
            name: spec[variable]
            for name, (variable, _prefix) in GENERATED.items()
            if variable and spec[variable] is not None
        }
        given.update(_wiring.operator_secrets(spec))
        missing = [name for name in GENERATED if name not in given]
        kept, created = self._keep(path, missing)
        result["changed"] = bool(created)
        result["file"] = str(path)
        result["created"] = created
        # not as a fact: a fact cache would write it to disk
        result["secrets"] = {**kept, **given}
        return result

    def _keep(self, path: Path, wanted: list[str]) -> tuple[dict[str, str], list[str]]:
        """The wanted secrets from the file, which gets those it does not have yet; in check mode nothing is written."""
        if self._task.check_mode and not path.exists():
            return {name: self._generate(name) for name in wanted}, wanted
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(path.parent, os.O_RDONLY)
        except OSError as problem:
            raise AnsibleActionFail(
                f"{path.parent}: {problem.strerror}. Set rag_secrets_file to a writable place."
            ) from problem
        try:
            # the hosts of an installation run this at the same time, in processes of their own
            fcntl.flock(lock, fcntl.LOCK_EX)
            kept = self._read(path)
            created = [name for name in wanted if not kept.get(name)]
            kept.update({name: self._generate(name) for name in created})
            if created and not self._task.check_mode:
                self._write(path, kept, created)
        finally:
            os.close(lock)
        return {name: kept[name] for name in wanted}, created

    @staticmethod
    def _generate(name: str) -> str:
        return GENERATED[name][1] + secrets.token_urlsafe(24)

    def _read(self, path: Path) -> dict[str, str]:
        """The file's content; the loader decrypts a file of ansible-vault."""
        if not path.exists():
            return {}
        try:
            content = self._loader.load_from_file(str(path), cache="none")
        except AnsibleError as problem:
            raise AnsibleActionFail(f"{path} cannot be read: {problem.message}") from problem
        if not isinstance(content, dict):
            raise AnsibleActionFail(f"{path} must hold a mapping of secret names to values.")
        return {str(name): str(value) for name, value in content.items()}

    @staticmethod
    def _write(path: Path, content: dict[str, str], missing: list[str]) -> None:
        if path.exists() and path.read_bytes().startswith(b"$ANSIBLE_VAULT"):
            raise AnsibleActionFail(
                f"{path} is encrypted and lacks {', '.join(missing)}. Add {'it' if len(missing) == 1 else 'them'} with "
                "ansible-vault edit, or decrypt the file for one run."
            )
        draft = path.with_suffix(".new")
        with open(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(
                "# Generated once and kept. Encrypt it with ansible-vault encrypt; losing it logs every user out.\n"
            )
            yaml.safe_dump(content, file)
        os.replace(draft, path)
