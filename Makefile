# Two commands matter: `make demo` (a running, proven stack) and `make test` (everything that is checked).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export PATH := $(CURDIR)/.venv/bin:$(PATH):$(CURDIR)/.cache/uv/bin
export UV_SYSTEM_CERTS := 1
export UV_PYTHON_DOWNLOADS := never

.PHONY: help setup demo demo-down lint sanity sanity-full test-unit test-contract test-agreement test-stack test-gpu test test-full bench docs dist lock

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

setup: .venv/.stamp ## make .venv with the locked dependencies and plumbline.rag

.venv/.stamp: requirements/dev.txt requirements/install
	@requirements/install
	@touch $@

demo: setup ## deploy the quickstart on this machine and prove it
	@start=$$SECONDS; status=0; \
	echo "ansible-playbook site.yml -i inventories/quickstart"; \
	ansible-playbook site.yml -i inventories/quickstart || status=$$?; \
	echo "elapsed: $$((SECONDS - start)) s"; \
	exit $$status

demo-down: setup ## remove the quickstart; VOLUMES=1 removes its data too
	@ansible-playbook plumbline.rag.uninstall -i inventories/quickstart $(if $(filter 1,$(VOLUMES)),-e '{"uninstall_volumes": true}')

lint: setup ## ruff, mypy, yamllint, ansible-lint, changelog fragments
	@echo "ruff"; ruff check --quiet . && ruff format --quiet --check .
	@echo "mypy"; mypy
	@echo "yamllint"; yamllint --strict .
	@echo "antsibull-changelog"; antsibull-changelog lint
	@echo "ansible-lint"; ansible-lint --offline --strict --nocolor -q

sanity: setup ## ansible-test sanity on ansible-core 2.19 and 2.21
	@tests/sanity/run

sanity-full: setup ## the same, on every Python that a host may have
	@tests/sanity/run --full

test-unit: setup ## unit tests
	@pytest tests/unit

test-contract: setup ## what the parts promise each other
	@pytest tests/contract

test-stack: setup ## real software in containers, and the built artifact as users install it
	@tests/stack/run

test: setup ## all of the above, quick parts first
	@python tests/steps.py lint sanity test-unit test-contract test-stack

test-agreement: setup ## our verdict and embed-parity's on one model; makes a venv with torch
	@pytest tests/agreement

# The whole fault matrix takes as long as everything else together, and engines that are gone are waited for; `make test` plants
# one fault of each kind.
test-full: export PLUMBLINE_FULL := 1
test-full: setup ## test, with sanity on every Python, the whole fault matrix, and agreement with embed-parity
	@python tests/steps.py lint sanity-full test-unit test-contract test-agreement test-stack

# CI has no card; images and weights can be brought along, see tests/gpu/test_gpu.py.
test-gpu: setup ## TEI and vLLM on this machine's NVIDIA card; says so where there is none
	@pytest tests/gpu

bench: setup ## how the time of a plan grows with the hosts
	@python tests/bench/plan.py

docs: setup ## regenerate docs/rules from the code
	@python docs/generate.py

dist: setup ## build the collection artifact into dist/
	@ansible-galaxy collection build --force --output-path dist

lock: setup ## resolve requirements/*.in anew
	@cd requirements && for name in uv controller dev importer; do \
	  uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    $$name.in --output-file $$name.txt; \
	done
