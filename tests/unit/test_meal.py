"""MEAL's benchmarks: settings, levels in turn, and what is drawn for each task."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brigade.benchmarks.meal import (
    WINDOWS,
    KitchenSettings,
    MixedSettings,
    curriculum,
    kitchens,
    mix,
    mixed_levels,
    rising_levels,
)
from brigade.envs.overcooked.generate import generate_sequence
from brigade.envs.overcooked.solve import cycle_time
from brigade.envs.overcooked.tasks import task_from_grid
from brigade.envs.overcooked.things import Role
from brigade.runs.config import from_dict

EVERYTHING = KitchenSettings(
    num_agents=3,
    view="level",
    reward="individual",
    roles=True,
    random_starts=True,
    sticky_actions=0.1,
    slippery=0.3,
    random_pot_sizes=True,
    random_cook_times=True,
)


def leaves_equal(one, other):
    return all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


def test_the_defaults_are_the_kitchens_as_drawn():
    benchmark = kitchens("1")
    sequence = benchmark.sequence(3, 4, 10)
    for index, grid in enumerate(generate_sequence("1", 4, 3)):
        plain = task_from_grid(grid, height=7, width=7).replace(id=jnp.int32(index))
        assert leaves_equal(sequence[index], plain)
    assert sequence.names == ("kitchen 1", "kitchen 2", "kitchen 3", "kitchen 4")
    assert sequence.steps == 10


def test_the_number_of_cooks_can_be_given_in_both_ways():
    alone = KitchenSettings(num_agents=1)
    assert kitchens("1", 3).env == kitchens("1", num_agents=3).env
    assert kitchens("1", settings=alone).env.num_agents == 1
    assert kitchens("1", 4, alone).env.num_agents == 4


def test_settings_reach_the_environment():
    env = kitchens("2", settings=EVERYTHING).env
    assert (env.num_agents, env.height, env.width) == (3, 9, 9)
    assert (env.view, env.reward, env.roles) == ((2, 1, 0), "individual", True)
    assert (env.sticky_actions, env.slip_chance, env.random_starts) == (0.1, 0.25, True)
    assert kitchens("2", settings=KitchenSettings(slip_chance=0.9)).env.slip_chance == 0


def test_the_windows_are_the_papers():
    assert [WINDOWS[level] for level in "123"] == [(1, 1, 0), (2, 1, 0), (3, 2, 1)]
    for level in "123":
        env = kitchens(level, settings=KitchenSettings(view="level")).env
        assert env.view == WINDOWS[level]


def test_what_is_drawn_for_tasks_stays_in_range_and_differs():
    tasks = kitchens("1", settings=EVERYTHING).sequence(0, 40, 1).tasks
    assert set(tasks.pot_size.tolist()) == {1, 2, 3, 4, 5}
    assert min(tasks.cook_time.tolist()) >= 10
    assert max(tasks.cook_time.tolist()) <= 30
    assert len(set(tasks.cook_time.tolist())) > 10
    both = frozenset((Role.CHEF, Role.WAITER))
    assert {frozenset(roles) for roles in tasks.role.tolist()} == {both}
    assert len({tuple(roles) for roles in tasks.role.tolist()}) == 6
    floor = (np.asarray(tasks.region) > 0).sum((1, 2))
    wet = np.asarray(tasks.slippery)
    np.testing.assert_array_equal(wet.sum((1, 2)), [round(0.3 * tiles) for tiles in floor])
    assert not (wet & (np.asarray(tasks.tile) != 0)).any()


def test_scores_are_divided_by_the_cycle_of_the_tasks_own_pot_and_time():
    settings = KitchenSettings(random_pot_sizes=True, random_cook_times=True)
    tasks = kitchens("1", settings=settings).sequence(5, 6, 1).tasks
    for index, grid in enumerate(generate_sequence("1", 6, 5)):
        size, time = int(tasks.pot_size[index]), int(tasks.cook_time[index])
        assert int(tasks.cycle_time[index]) == cycle_time(grid, 2, time, size)


def test_switching_one_setting_on_draws_the_others_as_before():
    pots = KitchenSettings(random_pot_sizes=True)
    both = KitchenSettings(random_pot_sizes=True, slippery=0.5)
    one, other = (kitchens("1", settings=s).sequence(0, 10, 1).tasks for s in (pots, both))
    np.testing.assert_array_equal(one.pot_size, other.pot_size)
    np.testing.assert_array_equal(one.tile, other.tile)


def test_a_longer_sequence_begins_with_the_shorter_one():
    for benchmark in (kitchens("1", settings=EVERYTHING), mix()):
        long, short = benchmark.sequence(1, 6, 1), benchmark.sequence(1, 4, 1)
        for index in range(4):
            assert leaves_equal(long[index], short[index])


def test_different_seeds_draw_different_things():
    one, other = (kitchens("1", settings=EVERYTHING).sequence(s, 8, 1).tasks for s in (0, 1))
    for name in ("pot_size", "cook_time", "role", "slippery", "tile"):
        assert not np.array_equal(getattr(one, name), getattr(other, name))


def test_hand_off_kitchens_have_finite_scores():
    settings = KitchenSettings(require_handoff=True)
    benchmark = kitchens("1", settings=settings)
    sequence = benchmark.sequence(0, 8, 1)
    for index in range(8):
        assert 1 <= int(benchmark.env.max_soups(sequence[index])) <= 9
        region, start = np.asarray(sequence[index].region), np.asarray(sequence[index].start)
        assert len(set(region.reshape(-1)[start].tolist())) == 2


# --- levels in turn ---


@pytest.mark.parametrize(
    ("num_tasks", "levels"),
    [(3, "123"), (4, "1123"), (5, "11223"), (15, "1" * 5 + "2" * 5 + "3" * 5)],
)
def test_a_curriculum_rises_in_equal_shares(num_tasks, levels):
    assert "".join(rising_levels("123", 0, num_tasks)) == levels


def test_a_curriculum_is_padded_to_one_size_and_uses_the_levels_own_kitchens():
    benchmark = curriculum()
    assert (benchmark.id, benchmark.num_tasks) == ("meal/curriculum", 15)
    sequence = benchmark.sequence(2, 6, 1)
    assert sequence.tasks.tile.shape == (6, 11, 11)
    assert sequence.names[0] == "kitchen 1, level 1"
    assert sequence.names[-1] == "kitchen 6, level 3"
    assert sequence.tasks.id.tolist() == list(range(6))
    for place, level in enumerate("112233"):
        grid = generate_sequence(level, 2, 2)[place % 2]
        expected = task_from_grid(grid, height=11, width=11).replace(id=jnp.int32(place))
        assert leaves_equal(sequence[place], expected)


def test_too_short_a_curriculum_is_refused():
    with pytest.raises(
        ValueError, match="--tasks is 2; a curriculum needs at least 3, one per level"
    ):
        curriculum().sequence(0, 2, 1)


def test_a_mix_has_all_levels_in_no_order():
    levels = mixed_levels("123", 0, 60)
    assert {level: levels.count(level) >= 10 for level in "123"} == dict.fromkeys("123", True)
    assert levels != sorted(levels)
    assert levels != mixed_levels("123", 1, 60)
    assert mix().sequence(0, 5, 1).tasks.tile.shape == (5, 11, 11)


def test_a_curriculum_and_a_mix_of_any_levels():
    one_and_three = MixedSettings(levels=("3", "1"))
    rising = curriculum(one_and_three)
    assert rising.summary == "15 generated kitchens: equal shares of levels 3 and 1, in turn"
    assert rising.sequence(0, 4, 1).names == tuple(
        f"kitchen {number}, level {level}" for number, level in enumerate("3311", start=1)
    )
    weighted = mix(MixedSettings(levels=("1", "1", "1", "2"))).sequence(0, 80, 1)
    assert weighted.tasks.tile.shape == (80, 9, 9)
    assert 50 < sum(name.endswith("level 1") for name in weighted.names) < 70


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        (("2",), "^levels is 2; give two or more different levels"),
        (("2", "2"), "^levels is 2 2; give two or more different levels"),
        ((), "^levels is empty; give two or more"),
        (("1", "4"), "unknown level '4'"),
    ],
)
def test_a_sequence_of_several_levels_has_several(levels, message):
    with pytest.raises(ValueError, match=message):
        MixedSettings(levels=levels)


def test_mixed_levels_have_no_window_of_their_own():
    with pytest.raises(ValueError, match=r"give one for all, such as \(3, 2, 1\)"):
        curriculum(MixedSettings(view="level"))
    assert curriculum(MixedSettings(view=(2, 2, 2))).env.view == (2, 2, 2)


def test_one_program_serves_a_whole_curriculum():
    benchmark = curriculum(MixedSettings(random_pot_sizes=True, roles=True, slippery=0.2))
    sequence = benchmark.sequence(0, 3, 1)
    traced = []

    @jax.jit
    def play(task):
        traced.append(1)
        state, _ = benchmark.env.reset(jax.random.key(0), task)
        return benchmark.env.step(jax.random.key(1), state, jnp.array([5, 2]), task)[1].view.obs

    for index in range(3):
        assert play(sequence[index]).shape == (2, 11, 11, 26)
    assert len(traced) == 1


# --- what goes to the learner ---


@pytest.mark.parametrize("preset", ["paper", "laptop"])
def test_individual_rewards_come_with_individual_shaping(preset, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(
        "from brigade.benchmarks.meal import KitchenSettings, kitchens\n"
        "def own():\n"
        "    return kitchens('1', settings=KitchenSettings(reward='individual'))\n"
    )
    experiment = from_dict({"benchmark": f"{file}:own", "preset": preset})
    assert not experiment.learner.ppo.share_shaping
    assert from_dict({"benchmark": "meal/level-1", "preset": preset}).learner.ppo.share_shaping
    assert experiment.learner.ppo.epochs == {"paper": 8, "laptop": 4}[preset]


# --- mistakes ---


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_agents": 5}, "num_agents is 5; it must be from 1 to 4"),
        ({"num_agents": 1, "roles": True}, "roles need a chef and a waiter"),
        ({"num_agents": 1, "require_handoff": True}, "require_handoff needs at least two cooks"),
        ({"slippery": 1.1}, "slippery is 1.1; it must be from 0 to 1"),
        ({"slip_chance": 2}, "slip_chance is 2; it must be from 0 to 1"),
        ({"sticky_actions": -1}, "sticky_actions is -1; it must be from 0 to 1"),
        ({"view": (1, 1)}, "three numbers of tiles"),
        ({"reward": "none"}, "reward is 'none'; use one of"),
    ],
)
def test_impossible_settings_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message) as caught:
        KitchenSettings(**wrong)
    assert "\n" not in str(caught.value)


def test_an_unknown_level_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown level '4': known: 1, 2, 3"):
        kitchens("4")
