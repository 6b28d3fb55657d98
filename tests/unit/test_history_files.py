"""Learning histories: recorded while a run trains, kept as HDF5, read by learners."""

import json
import shutil

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brigade
from brigade.cli import main
from brigade.core import View
from brigade.core.histories import Windows
from brigade.errors import UserError
from brigade.histories import Batches
from brigade.histories.files import (
    FileHistories,
    IndexEntry,
    best_streams,
    episode_returns,
    finished_shard,
    quality,
    read_index,
    write_index,
    write_shard,
)
from brigade.histories.manifest import ManifestTask, batches, read_manifest
from brigade.reading import DamagedError
from brigade.runs.histories import Stream, whole_episodes
from brigade.runs.run import resume, run

HORIZON, ENVS, KEPT = 20, 4, 2
SETTINGS = {
    "benchmark": "overcooked/layout",
    "preset": "laptop",
    "partners": ["static", "random"],
    "partners_of_seed": ["static", "random"],
    "seats": ["0"],
    "seeds": 2,
    "num_envs": ENVS,
    "num_steps": 2 * HORIZON,
    "steps_per_task": 3 * 2 * HORIZON * ENVS,
    "eval_every": 3,
    "eval_episodes": 1,
    "histories": KEPT,
    "history_steps": 15,
    "env": {"horizon": HORIZON},
    "ppo": {"epochs": 1, "minibatches": 1},
    "network": {"hidden": [8]},
}


def fields(seed, length=30, episode=10):
    """A history of made-up timesteps."""
    make = np.random.default_rng(seed)
    return {
        "obs": make.integers(0, 4, (length, 2, 3), dtype=np.uint8),
        "actions": make.integers(0, 6, length, dtype=np.int32),
        "rewards": make.random(length, dtype=np.float32),
        "dones": (np.arange(length) + 1) % episode == 0,
        "teammate_actions": make.integers(0, 6, length, dtype=np.int32),
        "expert_actions": make.integers(0, 6, length, dtype=np.int32),
    }


def described(task="a", number=0, length=30):
    return IndexEntry(
        history_id=number,
        task_id=task,
        env_idx=number,
        T=length,
        obs_shape=(2, 3),
        action_dim=6,
        layout="kitchen",
        has_teammate_actions=True,
        has_expert_actions=True,
    )


@pytest.fixture
def folder(tmp_path):
    """Two tasks of two histories each."""
    shards = [
        write_shard(tmp_path, task, [(described(task, n), fields(10 * k + n)) for n in range(2)])
        for k, task in enumerate("ab")
    ]
    write_index(tmp_path, shards)
    return tmp_path


def test_histories_come_back_as_they_were_written(folder):
    found = FileHistories(folder)
    assert found.lengths.tolist() == [30] * 4
    assert found.tasks.tolist() == [0, 0, 1, 1]
    assert [entry.history_id for entry in read_index(folder)] == [0, 1, 2, 3]
    for number, seed in enumerate([0, 1, 10, 11]):
        window = found.window(number, 7, 12)
        for name, array in fields(seed).items():
            np.testing.assert_array_equal(window[name], array[7:19])
            assert window[name].dtype == array.dtype
        np.testing.assert_array_equal(window["step"], np.arange(7, 19) % 10)


def test_files_and_arrays_give_learners_the_same_batches(folder):
    from brigade.histories import ArrayHistories

    arrays = ArrayHistories([fields(seed) for seed in (0, 1, 10, 11)], [0, 0, 1, 1])
    for windows in (Windows(), Windows(query_first=True)):
        one, other = (
            Batches(histories, 12, 5, windows).sample(np.random.default_rng(3))
            for histories in (arrays, FileHistories(folder))
        )
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_files_of_the_release_load(tmp_path):
    """One HDF5 file with observations as float32, beside an index that names no files."""
    with h5py.File(tmp_path / "dataset.h5", "w") as file:
        for name, array in fields(5).items():
            kind = np.float32 if name == "obs" else array.dtype
            file[f"0/{name}"] = array.astype(kind)
    line = {
        "history_id": 0,
        "task_id": "t",
        "env_idx": 3,
        "T": 30,
        "obs_shape": [2, 3],
        "action_dim": 6,
        "track": "teammate",
        "split": "train",
        "layout": "kitchen",
        "teammate_family": "rl",
        "teammate_kind": "fcp",
        "h5_group": "/0",
        "has_teammate_actions": True,
        "has_expert_actions": False,
    }
    (tmp_path / "index.jsonl").write_text(json.dumps(line) + "\n")
    found = FileHistories(tmp_path)
    assert "expert_actions" not in found.fields
    window = found.window(0, 0, 30)
    assert window["obs"].dtype == np.uint8
    np.testing.assert_array_equal(window["obs"], fields(5)["obs"])


def test_a_damaged_shard_is_noticed_and_written_again(folder):
    path = folder / "shards/b.h5"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=r"b.h5 is not as it was written"):
        finished_shard(folder, "b")
    assert finished_shard(folder, "a") is not None
    assert finished_shard(folder, "c") is None
    write_shard(folder, "b", [(described("b", n), fields(10 + n)) for n in range(2)])
    assert finished_shard(folder, "b") is not None


def test_a_damaged_chunk_is_never_read(folder):
    with h5py.File(folder / "shards/a.h5", "r") as file:
        chunk = file["0/obs"].id.get_chunk_info(0)
    with open(folder / "shards/a.h5", "r+b") as file:
        file.seek(chunk.byte_offset + chunk.size - 2)
        file.write(b"\0\1")
    with pytest.raises(DamagedError, match="damaged"):
        FileHistories(folder).window(0, 0, 5)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "index.jsonl").write_text(""), "is empty"),
        (lambda f: (f / "index.jsonl").write_text("{}\n"), "line 1 is damaged: 'obs_shape'"),
        (lambda f: (f / "index.jsonl").unlink(), "has no index.jsonl"),
        (lambda f: (f / "shards/a.h5").unlink(), "is missing"),
        (lambda f: (f / "shards/a.h5").write_bytes(b"no HDF5"), "is damaged"),
    ],
)
def test_damaged_folders_are_refused_in_one_line(folder, damage, message):
    damage(folder)
    with pytest.raises(UserError, match=message) as error:
        FileHistories(folder).window(0, 0, 5)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("file", ["../b.h5", "/etc/passwd"])
def test_an_index_names_only_files_of_its_folder(folder, file):
    lines = (folder / "index.jsonl").read_text().replace("shards/a.h5", file)
    (folder / "index.jsonl").write_text(lines)
    with pytest.raises(DamagedError, match="outside of it"):
        FileHistories(folder).window(0, 0, 5)


def test_links_in_a_file_are_not_followed(folder, tmp_path):
    shutil.copy(folder / "shards/b.h5", tmp_path / "secret.h5")
    with h5py.File(folder / "shards/a.h5", "r+") as file:
        del file["0/obs"]
        file["0/obs"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/0/obs")
    with pytest.raises(DamagedError, match="is missing, or a link"):
        FileHistories(folder).window(0, 0, 5)


def test_a_full_disk_leaves_what_was_complete(folder, monkeypatch):
    before = (folder / "shards/a.h5").read_bytes()

    def full(*arguments, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        write_shard(folder, "a", [(described("a"), fields(0))])
    assert (folder / "shards/a.h5").read_bytes() == before
    assert not list(folder.glob("shards/*.draft"))


def test_quality_is_the_end_and_the_improvement():
    """Windows of five of 20 episodes: the end 4, the beginning 1, so 4 + 3."""
    assert quality(np.array([1.0] * 5 + [2.0] * 10 + [4.0] * 5)) == pytest.approx(7.0)
    # A tenth of 100 episodes: the ends are those of ten.
    assert quality(np.arange(100.0)) == pytest.approx(94.5 + 94.5 - 4.5)
    assert best_streams([np.full(9, 1.0), np.arange(9.0), np.full(9, 3.0)], 2) == [1, 2]


def test_returns_are_of_whole_episodes():
    rewards = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert episode_returns(rewards, np.array([0, 1, 0, 1, 0], bool)).tolist() == [3.0, 7.0]


def test_histories_hold_the_first_steps_of_whole_episodes():
    """Episodes of 4, 2 (broken off) and 3 timesteps, a slot that is no step, and one just begun."""

    class Config:
        history_steps = 0

    first = np.array([1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1], bool)
    dones = np.array([0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0], bool)
    valid = np.array([1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1], bool)
    found = whole_episodes(Stream(dones, first, valid), Config)
    assert found.places.tolist() == [0, 1, 2, 3, 7, 8, 9]
    assert found.dones.tolist() == [False, False, False, True, False, False, True]
    Config.history_steps = 2  # the first two of each are known, even of the broken one
    found = whole_episodes(Stream(dones, first, valid), Config)
    assert found.places.tolist() == [0, 1, 5, 6, 7, 8]
    assert found.dones.tolist() == [False, True] * 3


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run of two seeds, each with a teammate of its own, that keeps histories."""
    folder = tmp_path_factory.mktemp("histories") / "run"
    run(SETTINGS, folder)
    return folder


def test_a_run_keeps_the_histories_of_every_seed(recorded):
    index = read_index(recorded / "histories")
    assert [entry.task_id for entry in index] == ["seed0-task1"] * KEPT + ["seed1-task1"] * KEPT
    assert [entry.teammate_kind for entry in index] == ["static"] * KEPT + ["random"] * KEPT
    assert not (recorded / "histories/parts").exists()
    found = FileHistories(recorded / "histories")
    assert found.lengths.tolist() == [6 * 15] * 4  # six episodes, the first 15 of 20 timesteps
    window = found.window(0, 0, 90)
    np.testing.assert_array_equal(window["step"], np.tile(np.arange(15), 6))
    static = brigade.get("benchmarks", "overcooked/layout")().env.stay_action
    assert (window["teammate_actions"] == static).all()
    assert len(np.unique(found.window(2, 0, 90)["teammate_actions"])) > 3
    assert window["obs"].dtype == np.uint8


def test_expert_labels_are_what_the_trained_policy_does(recorded):
    """Asked again, all at once, with the parameters of its own seed."""
    found, trained = FileHistories(recorded / "histories"), brigade.load(str(recorded))
    for history, seed in ((1, 0), (2, 1)):
        window = found.window(history, 0, 90)
        view = View(
            obs=jnp.asarray(window["obs"]),
            avail=jnp.ones((90, 6), bool),
            prev_action=jnp.full(90, -1),
            prev_reward=jnp.zeros(90),
            first=jnp.asarray(window["step"] == 0),
            active=jnp.ones(90, bool),
            task_id=jnp.zeros(90, jnp.int32),
        )
        policy, params = trained.parts.learner.policy, trained.acting_params(seed, 0)
        chosen, _, _ = policy.act(params, (), view, jax.random.key(0), greedy=True)
        np.testing.assert_array_equal(window["expert_actions"], chosen)


def test_a_resumed_run_keeps_the_same_histories(recorded, tmp_path, monkeypatch):
    """Stopped after the first of three updates."""
    calls = []

    def stop(progress, position, experiment):
        calls.append(progress.update)
        if progress.update == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(SETTINGS, tmp_path / "run", watch=stop)
    assert list((tmp_path / "run/histories/parts").glob("*/*.npz"))
    resume(tmp_path / "run")
    for path in sorted((recorded / "histories/shards").glob("*.h5")):
        one, other = (
            FileHistories(folder / "histories").window(0, 0, 90)
            for folder in (recorded, tmp_path / "run")
        )
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
        assert (tmp_path / "run/histories/shards" / path.name).exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"histories": ENVS + 1}, "every history is of an environment of its own"),
        (
            {"generator": "sp", "partners": [], "partners_of_seed": [], "num_envs": 16},
            "of one policy that learns",
        ),
    ],
)
def test_what_cannot_be_recorded_is_refused(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        run({**SETTINGS, **changes}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --- manifests, and the verb ---


def manifest(path, *tasks):
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return path


TASK = {"task_id": "a", "layout": "cramped_room", "teammate": "static"}
OTHER = {**TASK, "task_id": "b", "teammate": "random", "benchmark": "overcooked/layout"}


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ((), "is empty"),
        (({"task_id": "a", "layout": "x"},), "'teammate' is missing"),
        (({**TASK, "pot": 1},), "'pot' is unknown; use benchmark, family,"),
        (({**TASK, "split": "dev"},), "split is 'dev'; use train or test"),
        (({**TASK, "seed": -1},), "'seed' is -1; it must be 0 or more"),
        ((TASK, TASK), "tasks 1 and 2 are both called 'a'"),
        (
            (TASK, {**TASK, "task_id": "b", "teammate": "static:as_released", "split": "test"}),
            "b tests with the teammate static:as_released",
        ),
        (
            (TASK, {**OTHER, "track": "layout", "split": "test"}),
            "b tests with the layout cramped_room",
        ),
        (({**TASK, "teammate": "p.safetensors:x"},), "p.safetensors, which does not exist"),
        ((TASK, {**TASK, "task_id": "b", "split": "test"}), "b tests with the teammate static"),
        (
            (
                {**TASK, "track": "layout"},
                {**OTHER, "track": "layout", "split": "test"},
            ),
            "b tests with the layout cramped_room",
        ),
    ],
)
def test_manifests_that_do_not_hold_together_are_refused(tmp_path, tasks, message):
    with pytest.raises(UserError, match=message) as error:
        read_manifest(manifest(tmp_path / "m.jsonl", *tasks))
    assert "\n" not in str(error.value)


def test_a_copy_of_a_teammates_file_is_recognised(tmp_path):
    for name in "xy":
        (tmp_path / f"{name}.safetensors").write_bytes(b"the same policies")
    tasks = [
        {**TASK, "teammate": "x.safetensors:p"},
        {**TASK, "task_id": "b", "teammate": "y.safetensors:p", "split": "test"},
    ]
    with pytest.raises(UserError, match="the splits must not overlap"):
        read_manifest(manifest(tmp_path / "m.jsonl", *tasks))
    tasks[1]["teammate"] = "y.safetensors"
    with pytest.raises(UserError, match="b names a file; add the policy, FILE:NAME"):
        read_manifest(manifest(tmp_path / "m.jsonl", *tasks))
    (tmp_path / "y.safetensors").write_bytes(b"other policies")
    tasks[1]["teammate"] = "y.safetensors:p"
    with pytest.raises(UserError, match="a and b have teammates called p of two files"):
        read_manifest(manifest(tmp_path / "m.jsonl", *tasks))
    tasks[1]["teammate"] = "y.safetensors:q"
    found = read_manifest(manifest(tmp_path / "m.jsonl", *tasks))
    assert [task.teammate_family for task in found] == ["rl", "rl"]
    assert found[0].teammate == str(tmp_path / "x.safetensors:p")


def test_tasks_of_a_layout_are_seeds_of_a_run():
    tasks = [ManifestTask(str(n), "x" if n < 5 else "y", f"p{n}") for n in range(7)]
    found = batches([*tasks, ManifestTask("t", "x", "q", split="test")], most=3)
    assert [(b.layout, [t.task_id for t in b.tasks]) for b in found] == [
        ("x", ["0", "1", "2"]),
        ("x", ["3", "4"]),
        ("y", ["5", "6"]),
    ]
    assert len({batch.name for batch in found}) == 3


def test_histories_of_a_manifest_are_made_once_and_made_again_if_damaged(tmp_path, capsys):
    """Two teammates in a kitchen; the folder continues, notices damage, and is shown."""
    tasks = [{**OTHER, "task_id": "b", "teammate": "static"}, {**OTHER, "task_id": "c"}]
    path = manifest(tmp_path / "m.jsonl", *tasks)
    config = tmp_path / "ego.json"
    kept = {k: SETTINGS[k] for k in ("preset", "num_envs", "num_steps", "steps_per_task", "ppo")}
    kept |= {k: SETTINGS[k] for k in ("eval_every", "eval_episodes", "network", "histories")}
    config.write_text(json.dumps(kept | {"history_steps": 15, "env": {"horizon": HORIZON}}))
    words = ["histories", "make", str(path), "--out", str(tmp_path / "made")]
    words += ["--config", str(config), "--quiet"]
    assert main(words) == 0
    index = read_index(tmp_path / "made")
    assert [(e.task_id, e.teammate_kind, e.layout) for e in index] == [
        ("b", "static", "cramped_room")
    ] * KEPT + [("c", "random", "cramped_room")] * KEPT
    before = FileHistories(tmp_path / "made").window(0, 0, 90)
    assert main(words) == 0
    shard = next((tmp_path / "made/runs").glob("*/histories/shards/*.h5"))
    shard.write_bytes(shard.read_bytes()[:-100])
    capsys.readouterr()
    assert main([*words[:-1]]) == 0
    assert "its histories are made again" in capsys.readouterr().out
    after = FileHistories(tmp_path / "made").window(0, 0, 90)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
    assert main(["histories", "show", str(tmp_path / "made")]) == 0
    assert "cramped_room" in capsys.readouterr().out
    assert (tmp_path / "made/returns.png").stat().st_size > 5_000
    # Other tasks under the same names are not mixed in.
    manifest(path, tasks[0], {**tasks[1], "seed": 3})
    assert main(words) == 2
    assert "was made with another task c" in capsys.readouterr().err


# --- what strangers' files may hold ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file["0/actions"].__setitem__(3, 6), "actions that are not from 0 to 5"),
        (lambda file: file["0/rewards"].__setitem__(3, np.nan), "rewards that are not finite"),
    ],
)
def test_values_that_no_history_has_are_refused(folder, change, message):
    with h5py.File(folder / "shards/a.h5", "r+") as file:
        change(file)
    with pytest.raises(DamagedError, match=message):
        FileHistories(folder).window(0, 0, 30)


def test_an_array_that_promises_more_than_there_is_is_refused(tmp_path):
    length = 2**36
    with h5py.File(tmp_path / "dataset.h5", "w") as file:
        for name in ("actions", "rewards", "dones"):
            file.create_dataset(f"0/{name}", (length,), "i1", chunks=(1000,), compression="gzip")
        file.create_dataset("0/obs", (length, 1), "u1", chunks=(1000, 1), compression="gzip")
    line = {"history_id": 0, "task_id": "t", "env_idx": 0, "T": length, "obs_shape": [1]}
    line |= {"action_dim": 6, "h5_group": "/0"}
    (tmp_path / "index.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(DamagedError, match=r"promises 68\.7 GB and has 0 bytes"):
        FileHistories(tmp_path).window(0, 0, 10)


@pytest.mark.parametrize("group", [".", "..", "/0/../1", "a\0b", ""])
def test_groups_with_strange_names_are_refused(folder, group):
    lines = [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]
    lines[0]["h5_group"] = group
    (folder / "index.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DamagedError, match="is missing, or a link"):
        FileHistories(folder).window(0, 0, 10)


def test_observations_of_numbers_stay_what_they_are(tmp_path):
    numbers = fields(3) | {"obs": np.random.default_rng(0).normal(size=(30, 2, 3))}
    write_index(tmp_path, [write_shard(tmp_path, "a", [(described(), numbers)])])
    seen = FileHistories(tmp_path).window(0, 5, 10)["obs"]
    assert seen.dtype == np.float32
    np.testing.assert_array_equal(seen, numbers["obs"][5:15].astype(np.float32))


def test_a_context_beyond_its_sequences_is_refused(folder):
    with pytest.raises(ValueError, match="use --num-steps 20 or more"):
        Batches(FileHistories(folder), 12, 5, Windows(reach=20))


def test_a_run_that_keeps_histories_is_not_made_longer(recorded):
    before = (recorded / "config.json").read_bytes()
    with pytest.raises(UserError, match="it cannot be made longer"):
        resume(recorded, steps_per_task=1e4)
    assert (recorded / "config.json").read_bytes() == before
