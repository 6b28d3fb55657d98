"""Partner selection and BR-Prox tables against the recorded cases, all their parts."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from brigade.metrics import subsets, zsc_eval

CASES = json.loads((Path(__file__).parent / "data" / "zsc_selection.json").read_text())


def cases_of(function: str) -> list[dict[str, Any]]:
    return [case for case in CASES if case["metric"] == f"zsc_eval.{function}"]


def inputs_of(case: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in case["inputs"].items() if name != "layout"}


def selection_id(case: dict[str, Any]) -> str:
    return f"{case['inputs']['k']}-of-{len(case['kept'])}"


selections = pytest.mark.parametrize("case", cases_of("select_partners"), ids=selection_id)
tables = pytest.mark.parametrize(
    "case",
    cases_of("br_proximity_table"),
    ids=lambda case: f"clip={case['inputs']['clip']}",
)


@selections
def test_the_recorded_partners_are_selected(case: dict[str, Any]) -> None:
    selection = zsc_eval.select_partners(**inputs_of(case))
    assert list(selection) == case["expected"]
    assert selection.determinant == pytest.approx(case["expected_determinant"], rel=1e-9)
    assert list(selection.kept) == case["kept"]
    np.testing.assert_allclose(selection.similarity, case["similarity"], rtol=1e-9)


@selections
def test_every_subset_has_its_recorded_determinant(case: dict[str, Any]) -> None:
    selection = zsc_eval.select_partners(**inputs_of(case))
    size = case["inputs"]["k"]
    recorded = {tuple(entry["subset"]): entry["det"] for entry in case["determinants"]}
    assert set(recorded) == set(combinations(selection.kept, size))
    rows = np.array([[selection.kept.index(i) for i in subset] for subset in recorded])
    found = np.exp(subsets._log_determinants(selection.similarity, rows))
    np.testing.assert_allclose(found, list(recorded.values()), rtol=1e-9)


@selections
@pytest.mark.parametrize("method", ["search", "sample"])
def test_search_and_sampling_find_the_recorded_partners_too(
    case: dict[str, Any], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subsets, "_EXACT_LIMIT", 0)
    found = zsc_eval.select_partners(**inputs_of(case), method=method, samples=2000)
    assert list(found) == case["expected"]


@tables
def test_the_proximity_table_equals_the_recorded_one(case: dict[str, Any]) -> None:
    table = zsc_eval.br_proximity_table(**inputs_of(case))
    assert table.value == pytest.approx(case["expected"], rel=1e-9)
    np.testing.assert_allclose(table.per_seat, case["per_seat"], rtol=1e-9)
    assert table.interval[0] < table.value < table.interval[1]


def test_all_recorded_cases_are_run() -> None:
    assert len(cases_of("select_partners")) == 3
    assert len(cases_of("br_proximity_table")) == 2
    assert len(CASES) == 5
