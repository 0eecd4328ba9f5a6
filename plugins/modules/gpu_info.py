#!/usr/bin/python
# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the NVIDIA cards of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Read the NVIDIA graphics cards of a host and whether containers can use them
description:
  - Reads each card's capability, memory, processes and MIG instances with C(nvidia-smi), compares the driver's kernel module
    with its library, and asks Docker for the C(nvidia) runtime and for CDI.
  - Says whether the host waits for a reboot, and what the CDI specification was made for.
  - A host without a card answers with an empty list; that is not an error.
version_added: 0.1.0
author: plumbline.rag contributors (@plumbline)
options: {}
attributes:
  check_mode:
    description: Reads only, so check mode is the same.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
"""

EXAMPLES = r"""
- name: Look at the cards
  plumbline.rag.gpu_info:
  register: gpu
"""

RETURN = r"""
gpus:
  description: The cards; memory in MiB. Whatever a card does not report is null.
  returned: success
  type: list
  elements: dict
  sample:
    - index: 0
      uuid: GPU-8f6d5a3e-1f3f-4c0b-9d6a-0a2b4c6d8e0f
      name: NVIDIA L4
      compute_capability: "8.9"
      memory_mb: 23034
      free_mb: 22561
      driver: 550.54.15
      mig: false
      mig_changes: false
      fault: null
      instances: []
      processes: [{pid: 4211, name: /usr/local/bin/text-embeddings-router, memory_mb: 1210}]
driver:
  description: State (absent, works, mismatch or broken) with its reason, and the versions of kernel module and library.
  returned: success
  type: dict
  sample: {state: works, reason: "", kernel: 550.54.15, library: 550.54.15}
toolkit:
  description: Version of NVIDIA's container toolkit; null where it is not installed.
  returned: success
  type: str
  sample: 1.20.0
docker:
  description: >-
    Whether Docker has the nvidia runtime, whether it has CDI on and with NVIDIA's specification, which form of device request
    suits it (C(cdi) or C(runtime)), and whether it came as a snap.
  returned: success
  type: dict
  sample: {runtime: false, cdi: true, cdi_on: true, form: cdi, snap: false}
specification:
  description: >-
    What the CDI specification that the role nvidia wrote was made for, what one would be made for now, and the specifications
    of others for the same cards.
  returned: success
  type: dict
  sample:
    path: /etc/cdi/nvidia.yaml
    recorded: null
    wanted: driver 550.54.15, toolkit 1.20.0, devices GPU-8f6d5a3e-1f3f-4c0b-9d6a-0a2b4c6d8e0f
    foreign: []
reboot:
  description: Whether the host waits for a reboot, and the packages that ask for it, as far as the distribution records them.
  returned: success
  type: dict
  sample: {pending: false, packages: []}
"""

import glob
import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.plumbline.rag.plugins.module_utils import _gpu, _host

KERNEL_MODULE = "/proc/driver/nvidia/version"
LIBRARIES = ("/usr/lib/*/libnvidia-ml.so.*", "/usr/lib64/libnvidia-ml.so.*", "/usr/lib/libnvidia-ml.so.*")
SPECIFICATIONS = ("/etc/cdi/*", "/var/run/cdi/*")
REBOOT = "/var/run/reboot-required"


def read(path: str) -> str:
    """The content of a file; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def reboot(module: AnsibleModule) -> dict[str, object]:
    """Whether the host waits for a reboot: Debian and Ubuntu leave a file, the RHEL family has a program."""
    if os.path.exists(REBOOT):
        return {"pending": True, "packages": sorted(set(read(f"{REBOOT}.pkgs").split()))}
    program = module.get_bin_path("needs-restarting")
    return {"pending": program is not None and module.run_command([program, "-r"])[0] == 1, "packages": []}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)

    def ask(name: str, *arguments: str) -> tuple[int | None, str]:
        program = module.get_bin_path(name)
        if program is None:
            return None, ""
        status, output, errors = module.run_command([program, *arguments], environ_update={"LC_ALL": "C"})
        return status, output + errors

    status, output = ask("nvidia-smi", *_gpu.query(_gpu.CARD_FIELDS))
    found = _gpu.cards(output) if status == 0 else []
    if found:
        running = _gpu.processes(ask("nvidia-smi", *_gpu.query(_gpu.PROCESS_FIELDS, of="compute-apps"))[1])
        parts = _gpu.instances(ask("nvidia-smi", "-L")[1]) if any(card["mig"] for card in found) else {}
        found = _gpu.attach(found, running, parts)
    kernel = _gpu.kernel_version(read(KERNEL_MODULE))
    library = _gpu.library_version(name for pattern in LIBRARIES for name in glob.glob(pattern))
    specifications = {path: read(path) for pattern in SPECIFICATIONS for path in glob.glob(pattern)}
    toolkit = _gpu.toolkit_version(ask("nvidia-ctk", "--version")[1])
    version = found[0]["driver"] if found else None
    module.exit_json(
        changed=False,
        gpus=found,
        driver=_gpu.driver(status, output, kernel, library),
        toolkit=toolkit,
        docker=_gpu.docker_support(_host.docker_info(), specifications),
        specification=_gpu.specification(version, toolkit, found, specifications),
        reboot=reboot(module),
    )


if __name__ == "__main__":
    main()
