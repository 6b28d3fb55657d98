"""Every metric against the recorded cases: the value, and its parts where a case lists them."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CASES = json.loads((Path(__file__).parent / "data" / "metrics.json").read_text())
PARTS = ("per_task", "per_repetition", "matrix")


def case_id(case: dict[str, Any]) -> str:
    arrays = (np.shape(value) for value in case["inputs"].values() if isinstance(value, list))
    size = "x".join(str(length) for length in max(arrays, key=np.prod))
    options = [f"{key}={case['inputs'][key]}" for key in ("clip", "sigma") if key in case["inputs"]]
    return "-".join([case["metric"], size, *options])


def compute(case: dict[str, Any]) -> Any:
    module, function = case["metric"].split(".")
    inputs = {name: value for name, value in case["inputs"].items() if name != "layout"}
    return getattr(importlib.import_module(f"brigade.metrics.{module}"), function)(**inputs)


def assert_same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(
        np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64), rtol=1e-9
    )


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_the_metric_equals_the_recorded_value_and_parts(case: dict[str, Any]) -> None:
    result = compute(case)
    assert_same(getattr(result, "value", result), case["expected"])
    for part in PARTS:
        if part in case:
            assert_same(getattr(result, part), case[part])


def test_all_recorded_cases_are_run() -> None:
    assert len(CASES) == 49
