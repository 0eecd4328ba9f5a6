# Copyright: plumbline.rag contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""metrics.prom: the text format of Prometheus, with a sample for everything that is said of a verification."""

from __future__ import annotations

import re

from ansible_collections.plumbline.rag.plugins.module_utils import _metrics

from .test_report import HEALTHY, broken, dead, document

SAMPLE = re.compile(r'plumbline_verify_[a-z_]+\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\} -?[0-9.e+-]+')


def test_format() -> None:
    for content in (HEALTHY, document(broken), document(dead)):
        lines = _metrics.text(content).splitlines()
        declared = [line.split()[2] for line in lines if line.startswith("# TYPE")]
        assert len(declared) == len(set(declared))
        assert all(SAMPLE.fullmatch(line) for line in lines if not line.startswith("#"))


def test_healthy() -> None:
    text = _metrics.text(HEALTHY)
    assert 'plumbline_verify_proven{installation="default"} 1\n' in text
    assert 'plumbline_verify_findings{installation="default",severity="error"} 0\n' in text
    assert 'plumbline_verify_time_seconds{installation="default"} 1767323045\n' in text
    assert 'plumbline_verify_ndcg{installation="default",reranker="with"} 1\n' in text
    assert 'plumbline_verify_prefix_distance{installation="default",side="query"}' in text


def test_times_and_lock() -> None:
    latency = [{"route": "Open WebUI", "seconds": [0.1, 0.5], "p50": 0.1, "p95": 0.5, "max": 0.5}]
    measurements = {"comparison with the lock": {"lowest_cosine": 0.999995}}
    lock = {"proven": "2026-01-02T03:04:05+00:00", "vectors": None, "texts": 0, "baseline": "2026-01-02T03:04:05+00:00"}
    text = _metrics.text({**HEALTHY, "latency": latency, "measurements": measurements, "lock": lock})
    assert 'plumbline_verify_answer_seconds{installation="default",route="Open WebUI",quantile="0.95"} 0.5\n' in text
    assert 'plumbline_verify_lock_cosine{installation="default"} 0.999995\n' in text
    assert 'plumbline_verify_lock_time_seconds{installation="default"} 1767323045\n' in text
    text = _metrics.text({**HEALTHY, "latency": [], "measurements": {}, "lock": None})
    assert "answer_seconds" not in text
    assert "lock" not in text


def test_broken() -> None:
    text = _metrics.text(document(broken))
    assert 'plumbline_verify_proven{installation="default"} 0\n' in text
    assert 'plumbline_verify_findings{installation="default",severity="error"} 2\n' in text
    accepted = _metrics.text(document(broken, accept="known"))
    assert 'plumbline_verify_proven{installation="default"} 1\n' in accepted
    assert 'plumbline_verify_findings{installation="default",severity="accepted"} 3\n' in accepted


def test_escaping() -> None:
    text = _metrics.text({**HEALTHY, "installation": 'a"b\\c'})
    assert 'proven{installation="a\\"b\\\\c"} 1' in text
