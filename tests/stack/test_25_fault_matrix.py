"""Every cell of the fault matrix against the running quickstart, and no finding while nothing is wrong.

Without `PLUMBLINE_FULL` only the cells that represent the others. A whole run writes docs/fault-matrix.md.
"""

from __future__ import annotations

import os

import pytest

from . import fault_page
from .conftest import ROOT
from .fault_matrix import MATRIX
from .interposition import Stack

FULL = os.environ.get("PLUMBLINE_FULL") == "1"
CELLS = [cell for cell in MATRIX if FULL or cell.often]
HEALTHY_BEFORE, HEALTHY_AFTER = (10, 10) if FULL else (1, 2)
# What a healthy standard verification of the quickstart has to say of itself: nothing.
QUIET: tuple[str, ...] = ()


@pytest.fixture(scope="module", name="results")
def _results():
    results = fault_page.Results()
    yield results
    if FULL and results.complete(HEALTHY_BEFORE + HEALTHY_AFTER):
        (ROOT / "docs" / "fault-matrix.md").write_text(fault_page.page(results), encoding="utf-8")


@pytest.fixture(scope="module", name="stack")
def _stack():
    stack = Stack()
    try:
        stack.interpose()
        yield stack
    finally:
        stack.withdraw()


def healthy(stack: Stack, results: fault_page.Results) -> None:
    found = fault_page.found(stack.verify())
    results.healthy.append(found)
    assert found == QUIET
    assert stack.left_behind() == 0


@pytest.mark.parametrize("_number", range(HEALTHY_BEFORE))
def test_healthy_before(stack, results, _number):
    healthy(stack, results)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_cell(stack, results, cell):
    with stack.cell(cell):
        result = stack.verify(cell.depth, cell.plan, cell.secrets, cell.timeout)
    results.cells[cell.name] = fault_page.found(result)
    assert fault_page.found(result) == cell.findings, [finding["message"] for finding in result["findings"]]
    assert stack.left_behind() == 0


@pytest.mark.parametrize("_number", range(HEALTHY_AFTER))
def test_healthy_after(stack, results, _number):
    healthy(stack, results)
