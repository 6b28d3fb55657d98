"""ICRL4AHT's aggregation of returns, against a worked example (tests/golden/data)."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from brigade.benchmarks import published as of_papers
from brigade.benchmarks.published import published_in, read_paper
from brigade.metrics import icrl4aht

CASE = json.loads((Path(__file__).parent / "data/icrl_metric_aggregation.json").read_text())
INSTANCES = CASE["instances"]
MEANS = [icrl4aht.instance(each["returns"]).mean_return for each in INSTANCES]


@pytest.mark.parametrize(
    "each", INSTANCES, ids=lambda x: f"{x['layout']}-{x['family']}-{x['instance']}"
)
def test_an_instance_has_the_recorded_figures(each):
    found = icrl4aht.instance(each["returns"])._asdict()
    for name, value in found.items():
        assert value == pytest.approx(each["task"][name]), name
    assert icrl4aht.adaptation_gain(each["returns"]) == pytest.approx(each["gain"])


@pytest.mark.parametrize(
    ("recorded", "key"),
    [
        ("cells", lambda x: f"{x['layout']}/{x['family']}"),
        ("by_layout", lambda x: x["layout"]),
        ("by_family", lambda x: x["family"]),
    ],
)
def test_groups_have_the_recorded_means_and_deviations(recorded, key):
    found = icrl4aht.grouped([key(each) for each in INSTANCES], MEANS)
    assert list(found) == list(CASE[recorded])
    for name, of_group in found.items():
        expected = CASE[recorded][name]
        assert of_group.num_tasks == expected.get("num_tasks", 5)
        assert of_group.mean_return == pytest.approx(expected["mean_return"])
        assert of_group.std_return == pytest.approx(expected["std_return"])


def test_a_track_is_the_mean_of_all_its_instances():
    found, expected = icrl4aht.group(MEANS), CASE["track"]
    assert found.num_tasks == expected["num_tasks"]
    assert found.mean_return == pytest.approx(expected["mean_return"])
    assert found.std_return == pytest.approx(expected["std_return"])
    assert found.stderr_return == pytest.approx(expected["stderr_return"])


def test_gains_are_averaged_over_instances():
    gains = [icrl4aht.adaptation_gain(each["returns"]) for each in INSTANCES]
    found, expected = icrl4aht.group(gains), CASE["adaptation_gain"]
    assert found.mean_return == pytest.approx(expected["mean_over_instances"])
    assert found.std_return == pytest.approx(expected["std_population"])


def test_a_curve_is_the_mean_over_instances_by_episode():
    mean, std = icrl4aht.adaptation_curve([[0.0, 20.0, 40.0], [0.0, 0.0, 20.0]])
    np.testing.assert_allclose(mean, [0, 10, 30])
    np.testing.assert_allclose(std, [0, 10, 10])


def test_a_gain_is_shared_by_what_could_be_gained():
    assert icrl4aht.headroom(best_response=40.0, random=10.0) == 30.0
    assert icrl4aht.share_of_headroom(6.0, best_response=40.0, random=10.0) == pytest.approx(0.2)
    assert np.isnan(icrl4aht.share_of_headroom(6.0, best_response=10.0, random=10.0))


def test_printed_averages_are_those_of_the_printed_families():
    """The paper rounds to one decimal; its averages over four families must agree within that."""
    checked = 0
    file = Path(of_papers.__file__).with_name("icrl4aht.toml")
    for name in read_paper(file):
        rows = published_in(file, name)
        if "average" not in rows:
            continue
        by_column = defaultdict(list)
        for family in ("H1", "H2", "H3", "H4"):
            for column, figure in rows[family].items():
                by_column[column].append(figure.value)
        for column, values in by_column.items():
            assert np.mean(values) == pytest.approx(rows["average"][column].value, abs=0.101), name
            checked += 1
    assert checked == 39
