"""Policy files: what is saved comes back, runs keep what they use, broken files are refused."""

import json
import pickle
import shutil
import struct as binary
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load, save

from brigade.benchmarks.overcooked import LayoutSettings, layout
from brigade.cli import main
from brigade.envs.overcooked import Overcooked
from brigade.errors import UserError
from brigade.learners import IPPO, MAPPO, NetworkConfig, PPOConfig
from brigade.partners.cast import cast_of
from brigade.partners.files import Policies, check_fits, interface, load_policies
from brigade.runs.run import load as load_run
from brigade.runs.run import resume, run

KEY = jax.random.key(0)
SMALL = {
    "benchmark": "overcooked/layout",
    "preset": "laptop",
    "num_envs": 2,
    "num_steps": 100,
    "steps_per_task": 400,
    "eval_every": 2,
    "eval_episodes": 1,
    "ppo": {"epochs": 1, "minibatches": 2},
    "network": {"hidden": [8]},
}


def strong(params):
    """Logits that decide the action; those of fresh parameters are near 0."""
    head = params["actor_head"]
    return params | {"actor_head": head | {"kernel": 300 * head["kernel"]}}


def policies(kind=IPPO, members=2, env=None, task=0, **network):
    """Untrained ones, and the policies they were before their critics were cut off."""
    env = env or Overcooked(2, 4, 5)
    settings = kind(PPOConfig(), NetworkConfig(hidden=(8,), memory_size=4, **network))
    policy = settings.build(env, num_tasks=3, updates_per_task=1).policy
    whole = [strong(policy.init(jax.random.key(n))) for n in range(members)]
    made = [policy.actor(params, task) for params in whole]
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[params for _, params in made])
    names = [{"name": f"one-{n}", "score": 0.5} for n in range(members)]
    origin = {"benchmark": "overcooked/layout", "env": {"layout": "cramped_room"}}
    return Policies(made[0][0], params, interface(env), names, origin), policy, whole


def write(path, made):
    path.write_bytes(made.as_bytes())
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "network"),
    [
        (IPPO, {}),
        (IPPO, {"memory": "gru"}),
        (MAPPO, {"memory": "gru"}),
        (IPPO, {"memory": "gru", "shared_trunk": True}),
        (IPPO, {"encoder": "cnn"}),
    ],
    ids=["mlp", "gru", "mappo-gru", "shared", "cnn"],
)
def test_a_policy_acts_from_its_file_as_it_did(kind, network, tmp_path):
    """On the task it was exported for, whatever the task is called where it plays."""
    made, policy, whole = policies(kind, task=2, **network)
    again = load_policies(write(tmp_path / "p.safetensors", made))
    assert again.policy == made.policy
    assert (again.names, again.origin) == (made.names, made.origin)
    env = Overcooked(2, 4, 5)
    view = env.reset(KEY, layout().sequence(0, 1, 1)[0])[1].view
    trained = view.replace(task_id=jnp.full_like(view.task_id, 2))
    actions = []
    for number, params in enumerate(whole):
        one = jax.tree.map(lambda x, n=number: x[n], again.params)
        for key in jax.random.split(KEY, 5):
            expected, _, _ = policy.act(params, policy.initial_carry((2,)), trained, key)
            found, _, extras = again.policy.act(one, again.policy.initial_carry((2,)), view, key)
            np.testing.assert_array_equal(found, expected)
            assert "value" not in extras
            actions.append(found)
    of_members = np.reshape(actions, (len(whole), -1))
    assert (of_members[0] != of_members[1]).any()  # parameters decide, not only the key
    assert not any("critic" in name for name in load((tmp_path / "p.safetensors").read_bytes()))


def test_members_are_found_by_name(tmp_path):
    made, _, _ = policies(members=3)
    path = str(write(tmp_path / "p.safetensors", made))
    env = Overcooked(2, 4, 5)
    assert cast_of([path], env).names == ("one-0", "one-1", "one-2")
    assert cast_of([f"{path}:one-1"], env).names == ("one-1",)
    with pytest.raises(UserError, match="unknown member 'one-7'"):
        cast_of([f"{path}:one-7"], env)


def test_partners_of_one_architecture_become_one_group(tmp_path):
    """Whatever files they come from; names that meet twice tell their file."""
    first, second = policies()[0], policies(members=1)[0]
    other = policies(activation="tanh")[0]
    paths = [
        str(write(tmp_path / f"{name}.safetensors", made))
        for name, made in (("a", first), ("b", second), ("c", other))
    ]
    cast = cast_of([*paths, "human", "onion", "random"], Overcooked(2, 4, 5))
    assert [group.size for group in cast.groups] == [3, 2, 2, 1]
    assert cast.names[:3] == ("one-0", "one-1", "one-0 (2)")
    assert cast.names[3:] == ("one-0 (3)", "one-1 (2)", "human", "onion", "random")


# --- files that are not to be trusted ---


def changed(path, change=None, arrays=None):
    """The file with its text or its arrays changed."""
    content = path.read_bytes()
    size = binary.unpack("<Q", content[:8])[0]
    about = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["brigade"])
    found = load(content) | (arrays or {})
    text = json.dumps(about | (change or {}))
    path.write_bytes(save({k: v for k, v in found.items() if v is not None}, {"brigade": text}))


@pytest.mark.parametrize(
    ("change", "arrays", "message"),
    [
        (
            {},
            {"actor_head/bias": np.zeros((2, 3), np.float32)},
            r"actor_head/bias is \(2, 3\), but",
        ),
        ({}, {"actor_head/bias": None}, "actor_head/bias is missing, but"),
        (
            {},
            {"more": np.zeros(2, np.float32)},
            r"more is \(2,\), but its policy expects no such array",
        ),
        ({}, {"actor_head/bias": np.full((2, 18), np.nan, np.float32)}, "not finite"),
        ({"format": 9}, {}, "has format 9; this Brigade reads 1"),
        ({"policy": "path/to/file.py:Evil"}, {}, "unknown policy 'path/to/file.py:Evil'"),
        ({"settings": {}}, {}, "is damaged: .*'network' is missing"),
        ({"settings": {"network": {"hidden": [0]}, "obs_shape": [1], "task": 0}}, {}, "is damaged"),
        ({"members": []}, {}, "is damaged"),
        ({"members": [{"name": "a"}, {"name": "a"}]}, {}, "need unique, printable names"),
        ({"game": None}, {}, "is damaged"),
        ({}, {"actor_head/bias": np.full((2, 18), 1e300)}, "not finite"),
        ({"members": [{"name": "a"}, {"name": "\x1b[2J"}]}, {}, "need unique, printable names"),
        ({"origin": {"env": "x"}}, {}, "is damaged: env of its origin is 'x'"),
    ],
)
def test_damaged_files_are_refused_in_one_line(change, arrays, message, tmp_path):
    path = write(tmp_path / "p.safetensors", policies()[0])
    changed(path, change, arrays)
    with pytest.raises(UserError, match=message) as error:
        load_policies(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("task", 7, "task is 7; it must be from 0 to 2"),
        ("task", 0.5, "task is 0.5"),
        ("task", [1], "task is"),
        ("layer_norm", [1], "layer_norm is"),
        ("memory_size", "4", "memory_size is '4'"),
        ("num_actions", 5, "does not match"),
        ("continuous", True, "does not match"),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_one_line(where, value, message, tmp_path):
    made = policies()[0]
    path = write(tmp_path / "p.safetensors", made)
    settings = made.policy.settings()
    inside = settings if where == "task" else settings["network"]
    inside[where] = value
    changed(path, {"settings": settings})
    with pytest.raises(UserError, match="is damaged") as error:
        load_policies(path)
    assert message in str(error.value) or where in ("num_actions", "continuous")
    assert "\n" not in str(error.value)


def test_populations_of_two_runs_can_be_met_together(tmp_path):
    """Their files have the same names for members: the runs tell them apart, then numbers."""
    made = policies()[0]
    paths = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        named = replace(made, origin=made.origin | {"run": name})
        paths.append(str(write(tmp_path / name / "population.safetensors", named)))
    env = Overcooked(2, 4, 5)
    assert cast_of(paths, env).names == tuple(
        f"{name}/one-{n}" for name in ("first", "second") for n in (0, 1)
    )
    twice = cast_of([paths[0], paths[0], "random", "random"], env).names
    assert twice == (
        "first/one-0",
        "first/one-1",
        "first/one-0 (2)",
        "first/one-1 (2)",
        "random",
        "random (2)",
    )


@pytest.mark.slow
def test_a_config_cannot_smuggle_flags_in(tmp_path):
    """Code that a folder names runs only when it is trusted, wherever the name hides."""
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    run(SMALL, tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    whole = json.loads(path.read_text())
    for change in (
        {"partners": [f"{evil}:X"]},
        {"env": {"layout": "cramped_room", "reward": ["shared", "--partners", f"{evil}:X"]}},
        {"env": {"layout": f"--partners={evil}:X"}},
        {"preset": f"--partners={evil}"},
    ):
        path.write_text(json.dumps(whole | {"config": whole["config"] | change}))
        with pytest.raises(UserError):
            load_run(tmp_path / "run")
    assert not (tmp_path / "ran").exists()


def test_files_that_are_none_are_refused_in_one_line(tmp_path):
    whole = policies()[0].as_bytes()
    for content in (b"", b"nothing", whole[:-10], whole[:20], pickle.dumps({"a": print})):
        path = tmp_path / "x.safetensors"
        path.write_bytes(content)
        with pytest.raises(UserError, match="is not a policy file") as error:
            load_policies(path)
        assert "\n" not in str(error.value)
    path.write_bytes(save({"a": np.zeros(2)}))  # of another program
    with pytest.raises(UserError, match="is not a policy file"):
        load_policies(path)
    np.savez(tmp_path / "old.npz", about=np.array({"format": 1}, dtype=object))  # a pickle inside
    with pytest.raises(UserError, match=r"its name should end in \.safetensors"):
        load_policies(tmp_path / "old.npz")
    with pytest.raises(UserError, match="there is no policy file"):
        load_policies(tmp_path / "nowhere.safetensors")
    with pytest.raises(UserError, match="cannot read the policy file"):
        load_policies(tmp_path)


def test_policies_of_another_game_are_refused(tmp_path):
    made, _, _ = policies()
    check_fits(made, Overcooked(2, 4, 5), "p")
    with pytest.raises(UserError, match=r"with observation \[4, 5, 26\]; here it is \[7, 7, 26\]"):
        check_fits(made, Overcooked(), "p")
    with pytest.raises(UserError, match="with seats 2; here it is 3"):
        check_fits(made, Overcooked(3, 4, 5), "p")
    with pytest.raises(UserError, match="with view full; here it is 1 forward, 1 to each side"):
        check_fits(made, Overcooked(2, 4, 5, view=(1, 1, 0)), "p")
    partial = replace(made, game=interface(Overcooked(2, 4, 5, view=(1, 1, 0))))
    with pytest.raises(UserError, match=r"with view 1 forward, .* here it is full"):
        check_fits(partial, Overcooked(2, 4, 5), "p")


# --- runs that make them, and runs that use them ---


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    run(SMALL | {"seeds": 2}, folder / "made")
    assert main(["export", str(folder / "made"), "--out", str(folder / "made.safetensors")]) == 0
    return folder / "made.safetensors"


@pytest.mark.slow
def test_a_run_is_exported(exported):
    found = load_policies(exported)
    assert found.names == ("made-seed0", "made-seed1")
    assert found.origin["benchmark"] == "overcooked/layout"
    assert found.members[1]["seed"] == 1
    assert found.members[1]["steps"] == 400
    loaded = load_run(exported.with_name("made"))
    kept = loaded.acting_params(1, 0)["actor_head"]["kernel"]
    np.testing.assert_array_equal(found.params["actor_head"]["kernel"][1], kept)


@pytest.mark.slow
def test_a_run_keeps_the_partners_it_uses(exported, tmp_path):
    """It goes on from its own copy when the file is gone, and a changed file is another run's."""
    file = tmp_path / "theirs.safetensors"
    shutil.copy(exported, file)
    settings = SMALL | {"partners": [f"{file}:made-seed1", "random"], "network": {"hidden": [4]}}
    whole = run(settings, tmp_path / "whole")
    kept = list((tmp_path / "whole" / "partners").iterdir())
    assert [path.read_bytes() for path in kept] == [file.read_bytes()]
    config = json.loads((tmp_path / "whole" / "config.json").read_text())["config"]
    assert config["partners"] == [f"partners/{kept[0].name}:made-seed1", "random"]

    def interrupt(progress, position, experiment):
        if progress.update == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(settings, tmp_path / "stopped", watch=interrupt)
    file.unlink()
    resume(tmp_path / "stopped")
    assert (tmp_path / "stopped" / "returns.npz").read_bytes() == (
        whole.path / "returns.npz"
    ).read_bytes()
    again = tmp_path / "again"
    flags = ["--config", str(whole.path / "config.json"), "--out", str(again), "--quiet"]
    assert main(["run", *flags]) == 0
    assert (again / "returns.npz").read_bytes() == (whole.path / "returns.npz").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "x.npz"], "x.npz must end in .safetensors"),
        (["--out", "made.safetensors"], "exists already"),
        (["--out", "x.safetensors", "--task", "2"], "the run has 1 tasks; there is no task 2"),
        (["--out", "/dev/null/x.safetensors"], "choose another --out"),
        ([], "--out"),
    ],
)
def test_bad_input_exports_nothing(words, message, exported, capsys, monkeypatch):
    monkeypatch.chdir(exported.parent)
    before = sorted(Path().iterdir())
    assert main(["export", "made", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert sorted(Path().iterdir()) == before


def test_a_layout_that_is_none_is_refused():
    with pytest.raises(ValueError, match="did you mean 'cramped_room'"):
        LayoutSettings("cramped")
