"""Single-task baselines: trained once, shared by methods, read by the report."""

import dataclasses
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import brigade
from brigade.benchmarks.jaxnav import maps as random_maps
from brigade.benchmarks.meal import level_1
from brigade.report import read_run
from brigade.report.summary import summary
from brigade.runs.baselines import (
    add_baselines,
    baseline_of_seed,
    baseline_seed,
    fingerprint,
    groups,
    rollout_bytes,
    train_single_tasks,
)
from brigade.runs.config import from_dict
from brigade.runs.run import run

pytestmark = pytest.mark.slow

MEETING = Path(__file__).parents[2] / "examples" / "meeting.py"

SMALL = {
    "benchmark": "meal/level-1",
    "preset": "laptop",
    "tasks": 2,
    "seeds": 1,
    "num_envs": 4,
    "num_steps": 20,
    "steps_per_task": 160,
    "eval_every": 1,
    "eval_episodes": 1,
    "ppo": {"epochs": 1, "minibatches": 1},
    "network": {"hidden": [8]},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return run(SMALL, folder / "ft")


def test_baselines_are_kept_in_the_run_and_beside_it(finished):
    told = []
    path = add_baselines(finished, lambda what, progress: told.append((what, progress.steps)))
    arrays = read_run(finished.path).arrays
    assert path.name == "baselines.npz"
    assert arrays["baseline_score"].shape == (2, 1, 3)  # task, seed, evaluation
    assert arrays["baseline_steps"].tolist() == [0, 80, 160]
    assert [steps for _, steps in told] == [0, 80, 160]
    assert len(list((finished.path.parent / "baselines").glob("*.npz"))) == 1
    transfer = summary(read_run(finished.path))
    assert transfer.notes == []
    assert transfer.values["forward_transfer"] is not None


def test_another_method_of_the_same_seed_shares_them(finished, monkeypatch):
    other = run(SMALL | {"method": "ewc"}, finished.path.parent / "other")
    add_baselines(finished)

    def fail(*_):
        raise AssertionError("trained again")

    monkeypatch.setattr("brigade.runs.baselines.train_single_tasks", fail)
    add_baselines(other)
    a, b = (read_run(each.path).arrays["baseline_score"] for each in (finished, other))
    np.testing.assert_array_equal(a, b)


def test_two_processes_may_write_one_baseline_at_the_same_time(tmp_path, monkeypatch):
    """The second trains and writes it while the first has yet to rename its draft."""
    trained = {"steps": np.arange(3), "score": np.ones((2, 3))}
    monkeypatch.setattr("brigade.runs.baselines.train_single_tasks", lambda *_: trained)
    experiment, real, others = from_dict(SMALL), os.fsync, ["the second"]

    def written_by_another(descriptor):
        real(descriptor)
        if others:
            others.pop()
            baseline_of_seed(experiment, 0, tmp_path)

    monkeypatch.setattr(os, "fsync", written_by_another)
    baseline_of_seed(experiment, 0, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]
    monkeypatch.delattr("brigade.runs.baselines.train_single_tasks")  # what is there is read
    found = baseline_of_seed(experiment, 0, tmp_path)
    np.testing.assert_array_equal(found["score"], trained["score"])


def test_ctrl_c_waits_for_the_update_of_a_baseline(monkeypatch):
    """Within an update it would end in the middle of a program."""
    heard = []

    def press(what, progress):
        heard.append(progress.steps)
        if progress.steps == 80:
            signal.raise_signal(signal.SIGINT)  # not fatal here: the trainer's generator goes on
            heard.append("alive")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            train_single_tasks(from_dict(SMALL), 0, press)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [0, 80, "alive"]


def test_a_baseline_depends_on_the_experiment_but_not_on_the_method(tmp_path):
    names = set()
    experiment = from_dict(SMALL)
    assert fingerprint(experiment, 0) == fingerprint(from_dict(SMALL | {"seeds": 3}), 0)
    assert fingerprint(experiment, 0) == fingerprint(from_dict(SMALL | {"method": "ewc"}), 0)
    longer = from_dict(SMALL | {"steps_per_task": 320})
    assert fingerprint(experiment, 0) != fingerprint(longer, 0)
    assert fingerprint(experiment, 0) != fingerprint(experiment, 1)
    source = tmp_path / "meeting.py"
    for text in ("", "# changed"):
        source.write_text(MEETING.read_text() + text)
        names.add(fingerprint(from_dict(SMALL | {"benchmark": f"{source}:meeting"}), 0))
    assert len(names) == 2
    partners = dict(SMALL) | {"benchmark": "meal/partners"}
    ours = Path(brigade.__file__).parent / "partners" / "brdiv_cramped_room.safetensors"
    copy = tmp_path / "partners.safetensors"
    shutil.copy(ours, copy)
    with_file = from_dict(partners | {"env": {"population": str(copy)}})
    before = fingerprint(with_file, 0)
    copy.write_bytes(copy.read_bytes() + b"more")
    assert fingerprint(with_file, 0) != before
    assert len({baseline_seed(seed, place) for seed in range(20) for place in range(20)}) == 400


def test_a_baseline_depends_on_the_precision_that_is_really_used(monkeypatch):
    """`auto` is another one on another device."""

    def named(precision):
        network = SMALL["network"] | {"precision": precision}
        return fingerprint(from_dict(SMALL | {"network": network}), 0)

    names = {}
    for backend in ("cpu", "gpu"):
        monkeypatch.setattr("jax.default_backend", lambda backend=backend: backend)
        names[backend] = named("auto")
    assert names == {"cpu": named("float32"), "gpu": named("bfloat16")}
    assert names["cpu"] != names["gpu"]


def test_a_task_learns_the_same_alone_and_beside_others():
    """Task 2 of the sequence, trained with task 1 or with task 3 beside it."""
    two, three = (from_dict(SMALL | {"tasks": n}) for n in (2, 3))
    a, b = train_single_tasks(two, 5), train_single_tasks(three, 5)
    np.testing.assert_array_equal(a["score"], b["score"][:2])
    assert dataclasses.asdict(two.config)["tasks"] == 2


def test_tasks_are_grouped_by_what_fits_into_half_the_memory():
    assert groups(20, each=10, limit=None) == [range(20)]
    assert groups(20, each=10, limit=400) == [range(20)]
    assert groups(20, each=10, limit=399) == [range(10), range(10, 20)]
    assert groups(3, each=10, limit=59) == [range(1), range(1, 2), range(2, 3)]
    assert len(groups(20, each=10, limit=1)) == 20


def test_what_a_rollout_takes_depends_on_the_kind_of_numbers():
    kitchens, maps = level_1(), random_maps()
    bytes_seen = 2 * 7 * 7 * 26
    assert rollout_bytes(kitchens.env, kitchens.sequence(0, 1, 1)[0], 10) == 10 * bytes_seen
    entries = 2 * maps.env.obs_shape[0]
    assert rollout_bytes(maps.env, maps.sequence(0, 1, 1)[0], 10) == 10 * entries * 4
