"""Robots with lidar: geometry, driving, rewards, maps and pictures."""

from __future__ import annotations

import itertools
import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from brigade.envs.jaxnav import (
    ACTIONS,
    EVENTS,
    JaxNav,
    MapSpec,
    Rewards,
    Robot,
    State,
    Task,
    generate,
    make_task,
    render,
    rules,
    sequence,
)
from brigade.envs.jaxnav.lidar import directions, disc_distances, lidar, wall_distances
from brigade.envs.jaxnav.maps import (
    GenerationError,
    can_take_turns,
    clearance,
    shortest_path,
)
from brigade.envs.jaxnav.render import ROBOT_COLOURS

REACHED, INTO_WALL, INTO_ROBOT = range(len(EVENTS))
GO, STAND, LEFT, RIGHT = (ACTIONS.index(a) for a in ((1, 0), (0, 0), (0, 0.5), (0, -0.5)))
HALL = np.pad(np.zeros((5, 8), np.uint8), 1, constant_values=1)  # 7 x 10, nothing in it
KEY = jax.random.key(0)


def hall(start: list, goal: list) -> Task:
    return make_task(HALL, np.array(start, float), np.array(goal, float))


def hall_env(robots: int, **settings: object) -> JaxNav:
    return JaxNav(num_agents=robots, height=7, width=10, **settings)


def free_place(rng: np.random.Generator, walls: np.ndarray, radius: float = 0.3) -> np.ndarray:
    while True:
        x, y = rng.uniform(1, walls.shape[1] - 1), rng.uniform(1, walls.shape[0] - 1)
        if clearance(walls, x, y) > radius:
            return np.array([x, y])


# Lidar: the distances along beams, once more, slowly and with double precision.


def edges(walls: np.ndarray) -> np.ndarray:
    """[edges, 2, 2]: the four sides of every wall cell."""
    sides = []
    for y, x in np.argwhere(walls):
        corners = [(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)]
        sides += [(corners[i], corners[(i + 1) % 4]) for i in range(4)]
    return np.array(sides, float)


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def to_edges(place: np.ndarray, beam: np.ndarray, sides: np.ndarray) -> tuple[float, float]:
    """Distance to the nearest edge, and how nearly the beam touches a corner on its way there."""
    side, offset = sides[:, 1] - sides[:, 0], sides[:, 0] - place
    turn = cross(beam, side)
    with np.errstate(divide="ignore", invalid="ignore"):
        along, share = cross(offset, side) / turn, cross(offset, beam) / turn
    hit = (np.abs(turn) > 1e-12) & (along >= 0) & (share >= 0) & (share <= 1)
    return float(along[hit].min()), float(np.abs(cross(offset, beam)).min())


def to_circle(place: np.ndarray, beam: np.ndarray, centre: np.ndarray, radius: float) -> float:
    """The smaller root of |place + t beam - centre| = radius."""
    roots = np.roots(
        [1.0, 2 * beam @ (place - centre), (place - centre) @ (place - centre) - radius**2]
    )
    real = roots.real[(np.abs(roots.imag) < 1e-12) & (roots.real >= 0)]
    return float(real.min()) if len(real) == 2 else np.inf


@pytest.mark.parametrize("seed", range(4))
def test_lidar_agrees_with_plain_geometry(seed: int) -> None:
    rng = np.random.default_rng(seed)
    walls = np.asarray(generate(MapSpec(9, 11, 0.3), seed).walls)
    sides = edges(walls)
    see = jax.jit(lambda place, heading: lidar(place, heading, jnp.asarray(walls), Robot()))
    compared = left_out = 0
    for _ in range(6):
        place = np.float32([free_place(rng, walls) for _ in range(3)])
        if min(np.hypot(*(place[i] - place[j])) for i, j in ((0, 1), (0, 2), (1, 2))) < 0.6:
            continue
        heading = rng.uniform(-np.pi, np.pi, 3).astype(np.float32)
        seen = np.asarray(see(place, heading))
        for robot, beam in np.ndindex(seen.shape):
            angle = np.linspace(-np.pi, np.pi, 200)[beam] + float(heading[robot])
            ahead = np.array([np.cos(angle), np.sin(angle)])
            here = place[robot].astype(float)
            others = [place[other].astype(float) for other in range(3) if other != robot]
            expected, margin = to_edges(here, ahead, sides)
            margin = min(margin, *(abs(abs(cross(ahead, c - here)) - 0.3) for c in others))
            expected = min(expected, *(to_circle(here, ahead, c, 0.3) for c in others), 6.0)
            if margin < 1e-4:  # a beam that grazes: single precision may see it pass or not
                left_out += 1
                continue
            compared += 1
            assert abs(seen[robot, beam] - expected) < 1e-4
    assert compared > 1000
    assert left_out < 0.02 * compared


def test_beams_along_the_axes_and_from_grid_lines() -> None:
    place, heading = jnp.array([[3.0, 4.0]]), jnp.zeros(1)
    far, near = (Robot(beams=5, lidar_range=far) for far in (100.0, 2.5))  # from behind to behind
    np.testing.assert_allclose(
        lidar(place, heading, jnp.asarray(HALL), far)[0],
        [2, 3, 6, 2, 2],
        atol=1e-5,
    )
    np.testing.assert_allclose(
        lidar(place, heading + np.pi / 2, jnp.asarray(HALL), near)[0],
        [2.5, 2.5, 2, 2, 2.5],
        atol=1e-5,
    )


def test_a_robot_hides_the_wall_behind_it() -> None:
    place = jnp.array([[2.5, 3.5], [5.5, 3.5]])
    dx, dy = directions(jnp.zeros(2), 5)
    discs = disc_distances(place, dx, dy, 0.3)
    np.testing.assert_allclose(discs[:, [2, 0]], [[2.7, np.inf], [np.inf, 2.7]], rtol=1e-6)
    np.testing.assert_allclose(wall_distances(place, dx, dy, jnp.asarray(HALL))[0, 2], 6.5)


# Driving, by hand.


def drive(task: Task, env: JaxNav, actions: list[int]) -> tuple[State, list]:
    state, _ = env.reset(KEY, task)
    steps = []
    step = jax.jit(env.step)
    for action in actions:
        state, now = step(KEY, state, jnp.full(env.num_agents, action), task)
        steps.append(now)
    return state, steps


def test_speed_grows_by_a_tenth_per_step_up_to_what_is_wanted() -> None:
    task = hall([[2.5, 3.5, 0.0]], [[8.5, 3.5]])
    state, _ = drive(task, hall_env(1), [GO])
    np.testing.assert_allclose(state.speed, [[0.1, 0.0]], rtol=1e-6)
    np.testing.assert_allclose(state.place, [[2.51, 3.5]], rtol=1e-6)
    state, _ = drive(task, hall_env(1), [GO] * 12)
    np.testing.assert_allclose(state.speed, [[1.0, 0.0]], rtol=1e-6)
    # .1 * (.1 + .2 + ... + 1 + 1 + 1)
    np.testing.assert_allclose(state.place, [[2.5 + 0.55 + 0.2, 3.5]], rtol=1e-6)


def test_a_robot_goes_in_the_old_direction_and_then_turns() -> None:
    env = JaxNav(num_agents=1, height=7, width=10, actions="continuous")
    task = hall([[2.5, 3.5, np.pi / 2]], [[8.5, 3.5]])
    state, now = env.reset(KEY, task)
    assert now.view.prev_action.shape == (1, 2)
    state, now = env.step(KEY, state, jnp.array([[1.0, 1.0]]), task)
    np.testing.assert_allclose(state.place, [[2.5, 3.51]], rtol=1e-6)
    np.testing.assert_allclose(state.heading, [np.pi / 2 + 0.01], rtol=1e-6)
    np.testing.assert_array_equal(now.view.prev_action, [[1.0, 1.0]])
    for _ in range(9):
        state, now = env.step(KEY, state, jnp.array([[9.0, 9.0]]), task)
    np.testing.assert_allclose(state.speed, [[1.0, 0.6]], rtol=1e-5)
    assert env.continuous
    assert env.num_actions == 2
    assert now.view.avail.shape == (1, 2)


def test_continuous_actions_span_the_limits() -> None:
    wanted = rules.continuous_command(jnp.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]), Robot())
    np.testing.assert_allclose(wanted, [[0.0, -0.6], [0.5, 0.0], [1.0, 0.6]], rtol=1e-6)


def test_headings_stay_within_half_a_turn() -> None:
    task = hall([[2.5, 3.5, 3.1]], [[8.5, 3.5]])
    state, _ = drive(task, hall_env(1), [LEFT] * 12)
    # .1 * (.1 + .2 + .3 + .4 + 8 * .5)
    np.testing.assert_allclose(state.heading, [3.1 + 0.5 - 2 * np.pi], atol=1e-5)
    state, _ = drive(hall([[2.5, 3.5, -3.1]], [[8.5, 3.5]]), hall_env(1), [RIGHT] * 12)
    np.testing.assert_allclose(state.heading, [2 * np.pi - 3.6], atol=1e-5)


# Ends and rewards, by hand.


def test_reaching_the_goal_pays_once_and_ends_the_game() -> None:
    task = hall([[2.5, 3.5, 0.0]], [[3.1, 3.5]])
    state, steps = drive(task, hall_env(1), [GO] * 6)
    # .6 away, .5 is near enough: after .01 + .02 + .03 + .04 = .1
    arrived = [bool(now.info["events"][0, REACHED]) for now in steps]
    assert arrived in ([False] * 3 + [True] + [False] * 2, [False] * 4 + [True] + [False])
    last = arrived.index(True)
    assert float(steps[last].reward[0]) == pytest.approx(4 - 0.01)
    assert float(steps[0].reward[0]) == pytest.approx(0.25 * 0.01 - 0.01)
    assert bool(steps[last].terminated)
    assert not bool(steps[last].truncated)
    assert float(steps[last].info["score"]) == 1.0
    assert [float(now.reward[0]) for now in steps[last + 1 :]] == [0.0] * (5 - last)
    assert not bool(steps[-1].view.active[0])
    np.testing.assert_array_equal(state.place, steps[last].view.state.place)


def test_a_crash_into_the_wall_costs_and_being_near_it_does_before() -> None:
    task = hall([[8.42, 3.5, 0.0]], [[2.5, 3.5]])  # .58 from the wall
    _, steps = drive(task, hall_env(1), [GO] * 9)
    x = [float(now.view.state.place[0, 0]) for now in steps]
    # .01, .03, .06, .1, .15, .21 driven: within .4 of the wall after six steps, .3 after seven
    np.testing.assert_allclose(x[:7], 8.42 + np.array([1, 3, 6, 10, 15, 21, 28]) / 100, rtol=1e-5)
    reward = [float(now.reward[0]) for now in steps]
    progress = -0.25 * np.array([1, 2, 3, 4, 5, 6, 7]) / 100
    near = np.array([0, 0, 0, 0, 0, -0.1, -0.1])
    crash = np.array([0, 0, 0, 0, 0, 0, -4])
    np.testing.assert_allclose(reward[:7], progress - 0.01 + near + crash, atol=1e-4)
    assert steps[6].info["events"][0].tolist() == [False, True, False]
    assert bool(steps[6].terminated)
    assert float(steps[6].info["score"]) == 0.0
    assert reward[7:] == [0.0, 0.0]


def test_robots_that_meet_both_crash_and_share_what_they_earn() -> None:
    task = hall([[2.5, 3.5, 0.0], [3.2, 3.5, np.pi]], [[8.5, 3.5], [1.5, 5.5]])
    env = hall_env(2, rewards=Rewards(own_share=0.5))
    own = hall_env(2, rewards=Rewards(own_share=1.0))
    _, steps = drive(task, env, [GO] * 3)
    _, alone = drive(task, own, [GO] * 3)
    for now, then in zip(steps, alone, strict=True):
        np.testing.assert_allclose(
            now.reward, 0.5 * then.reward + 0.5 * then.reward.mean(), rtol=1e-5
        )
    met = [now.info["events"][:, INTO_ROBOT].tolist() for now in steps]
    assert met == [[False, False], [False, False], [True, True]]  # .7 - 2 * .06 < .6
    assert bool(steps[2].terminated)


def test_a_robot_that_is_done_stays_as_an_obstacle() -> None:
    task = hall([[2.5, 3.5, 0.0], [1.5, 5.5, 0.0]], [[3.2, 3.5], [8.5, 5.5]])
    env = hall_env(2)
    state, now = env.reset(KEY, task)
    step = jax.jit(env.step)
    action = jnp.array([GO, STAND])
    for _ in range(40):
        state, now = step(KEY, state, action, task)
    assert now.view.active.tolist() == [False, True]
    assert not bool(now.terminated)
    assert float(now.info["score"]) == 0.5
    stayed = state
    for _ in range(5):
        state, now = step(KEY, state, action, task)
    np.testing.assert_array_equal(state.place, stayed.place)
    np.testing.assert_array_equal(state.speed, np.zeros((2, 2)))
    np.testing.assert_allclose(now.reward, [-0.0025, -0.0075], atol=1e-6)  # only one still pays
    beside = state.replace(place=state.place.at[1].set(state.place[0] + jnp.array([0.0, 0.59])))
    after, now = step(KEY, beside, action, task)
    assert now.info["events"].tolist() == [[False] * 3, [False, False, True]]
    assert after.crashed.tolist() == [False, True]
    assert bool(now.terminated)


def test_the_time_limit_cuts_a_game() -> None:
    env = hall_env(1, horizon=3)
    _, steps = drive(hall([[2.5, 3.5, 0.0]], [[8.5, 3.5]]), env, [STAND] * 4)
    assert [bool(now.truncated) for now in steps] == [False, False, True, True]
    assert not any(bool(now.terminated) for now in steps)


def test_what_a_robot_sees() -> None:
    env = hall_env(1)
    task = hall([[2.5, 3.5, np.pi / 2]], [[5.5, 3.5]])
    _, now = env.reset(KEY, task)
    obs = np.asarray(now.view.obs)
    assert obs.shape == (1, 205)
    assert obs.dtype == np.float32
    assert env.obs_shape == (205,)
    # Standing, 3 of 6 metres away, a quarter turn to the right, even mix.
    np.testing.assert_allclose(obs[0, 200:], [-0.5, 0.0, 0.0, -0.5, 0.0], atol=1e-6)
    np.testing.assert_allclose(obs[0, [0, 199]], [2.5 / 6 - 0.5] * 2, atol=1e-5)
    _, now = env.step(KEY, env.reset(KEY, task)[0], jnp.array([GO]), task)
    np.testing.assert_allclose(now.view.obs[0, 200], -0.4, atol=1e-6)


# JaxMARL's simulator, step by step. Its robots are squares by default; its discs have lidar and
# collisions but lack one method, which is the disc's own under another name.


@pytest.fixture(scope="module")
def original() -> SimpleNamespace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from jaxmarl.environments.jaxnav.jaxnav_env import JaxNav as Original
        from jaxmarl.environments.jaxnav.jaxnav_env import State as OriginalState
        from jaxmarl.environments.jaxnav.maps.grid_map import GridMapCircleAgents

        def check_agent_map_collision(self, pos, theta, map_grid):
            return self.check_circle_map_collision(pos, map_grid)

        patch = pytest.MonkeyPatch()
        patch.setattr(GridMapCircleAgents, "check_agent_map_collision", check_agent_map_collision)
        env = Original(
            num_agents=3,
            act_type="Discrete",
            map_id="Grid-Rand",
            map_params={"map_size": (9, 9), "fill": 0.3},
        )
        # vmapped: one compilation for the games of a test
        step = jax.jit(jax.vmap(env.step_env))
        yield SimpleNamespace(env=env, step=step, state=OriginalState)
        patch.undo()


def games(num: int, seed: int) -> tuple[State, Task]:
    """Robots underway on one map each: random places, headings and speeds."""
    rng = np.random.default_rng(seed)
    states, tasks = [], []
    for number in range(num):
        task = generate(MapSpec(9, 9, 0.3, num_agents=3), seed * 1000 + number)
        walls = np.asarray(task.walls)
        place = np.array([free_place(rng, walls) for _ in range(3)])
        while min(np.hypot(*(place[i] - place[j])) for i, j in ((0, 1), (0, 2), (1, 2))) < 0.65:
            place = np.array([free_place(rng, walls) for _ in range(3)])
        goal = task.goal[0]
        if number % 2:  # nearly there
            goal = jnp.float32(place + rng.uniform(-0.6, 0.6, (3, 2)))
        speed = rng.uniform([0.0, -0.6], [1.0, 0.6], (3, 2))
        states.append(
            State(
                place=jnp.float32(place),
                goal=goal,
                heading=jnp.float32(rng.uniform(-np.pi, np.pi, 3)),
                speed=jnp.float32(speed),
                reached=jnp.zeros(3, bool),
                crashed=jnp.zeros(3, bool),
                time=jnp.int32(0),
            )
        )
        tasks.append(task)
    return stacked(states), stacked(tasks)


def stacked(trees: list) -> object:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def as_original(state: State, task: Task, original: SimpleNamespace) -> object:
    games = state.place.shape[0]
    no = jnp.zeros((games, 3), bool)
    return original.state(
        pos=state.place,
        theta=state.heading,
        vel=state.speed,
        done=no,
        term=no,
        goal_reached=state.reached,
        move_term=state.crashed,
        step=state.time,
        ep_done=jnp.zeros(games, bool),
        goal=state.goal,
        map_data=task.walls.astype(jnp.int32),
        rew_lambda=jnp.full(games, 0.5),
    )


@pytest.mark.slow
def test_driving_goals_crashes_and_rewards_are_the_originals(original: SimpleNamespace) -> None:
    """From the same state, for as long as nobody is done: then the original lets robots that have
    arrived drive on and keeps charging crashed ones for being near a wall; ours stay and are quit.

    Lidar differs by up to its step of 5 cm, so that the charge for being near may come a little
    later there; rewards are compared where the shortest beam is not within that of the limit.
    """
    env = JaxNav(num_agents=3, height=9, width=9)
    state, task = games(128, seed=1)
    step = jax.jit(jax.vmap(env.step, in_axes=(None, 0, 0, 0)))
    rng = np.random.default_rng(1)
    seen_events = np.zeros(3, int)
    compared = 0
    running = np.ones(128, bool)
    theirs_state = as_original(state, task, original)
    for _ in range(15):
        action = rng.integers(0, 15, (128, 3))
        keys = jax.random.split(KEY, 128)
        actions = {f"agent_{seat}": jnp.asarray(action[:, seat]) for seat in range(3)}
        _, theirs_state, reward, _, info = original.step(keys, theirs_state, actions)
        state, now = step(KEY, state, jnp.asarray(action), task)
        events = np.asarray(now.info["events"])
        for ours, theirs in (
            (state.place, theirs_state.pos),
            (state.heading, theirs_state.theta),
            (state.speed, theirs_state.vel),
        ):
            np.testing.assert_allclose(ours[running], theirs[running], atol=1e-5)
        for event, name in enumerate(("GoalR", "MapC", "AgentC")):
            np.testing.assert_array_equal(events[running, :, event], info[name][running] > 0)
        seen_events += events[running].sum((0, 1))
        shortest = np.asarray((now.view.obs[..., :200].min(-1) + 0.5) * 6)
        clear = running & (np.abs(shortest - 0.4) > 0.06).all(-1)
        expected = np.stack([reward[f"agent_{seat}"] for seat in range(3)], -1)
        np.testing.assert_allclose(now.reward[clear], expected[clear], atol=1e-4)
        compared += int(clear.sum())
        running &= ~np.asarray(state.done).any(-1)
    assert (seen_events > 3).all()
    assert compared > 100


@pytest.mark.slow
def test_observations_are_the_originals_up_to_its_lidar_steps(original: SimpleNamespace) -> None:
    """The original looks every 5 cm along a beam and reports the first point inside something, so
    it sees walls up to 5 cm too far and robots up to 5 cm too near, and may miss a corner."""
    env = JaxNav(num_agents=3, height=9, width=9)
    state, task = games(32, seed=2)
    theirs = jax.jit(jax.vmap(original.env._get_obs))(as_original(state, task, original))

    def observe(state: State, task: Task) -> jax.Array:
        return env._observe(state, env._lidar(state, task))

    ours = jax.jit(jax.vmap(observe))(state, task)
    np.testing.assert_allclose(ours[..., 200:], theirs[..., 200:], atol=1e-5)
    apart = np.abs(np.asarray(ours - theirs)[..., :200]) * 6
    assert (apart < 0.07).mean() > 0.98
    assert np.median(apart) < 0.03


# Maps.


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**9),
    st.sampled_from([(7, 7), (11, 11), (6, 9)]),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.15, 0.3]),
)
def test_every_map_can_be_solved_by_taking_turns(seed, size, robots, fill) -> None:
    spec = MapSpec(*size, fill, robots, situations=3)
    task = generate(spec, seed)
    walls = np.asarray(task.walls)
    assert walls.shape == size
    assert walls[[0, -1]].all()
    assert walls[:, [0, -1]].all()
    assert walls[1:-1, 1:-1].sum() == spec.num_walls
    assert task.start.shape == (3, robots, 3)
    assert task.goal.shape == (3, robots, 2)
    for start, goal in zip(np.asarray(task.start), np.asarray(task.goal), strict=True):
        places = np.concatenate([start[:, :2], goal])
        assert all(clearance(walls, *place) >= 0.5 for place in places)
        assert len({tuple(place) for place in places.tolist()}) == 2 * robots
        cells = [(int(y), int(x)) for x, y in places]
        assert can_take_turns(walls, tuple(cells[:robots]), tuple(cells[robots:]))
        for robot in range(robots):
            goal = cells[robots + robot]
            assert len(shortest_path(walls, cells[robot], goal, frozenset())) > 2
        assert (np.abs(start[:, 2]) <= np.pi).all()


def test_robots_that_can_only_swap_in_a_corridor_get_another_map() -> None:
    corridor = np.pad(np.zeros((1, 5), np.uint8), 1, constant_values=1)
    assert can_take_turns(corridor, ((1, 1),), ((1, 5),))
    assert not can_take_turns(corridor, ((1, 1), (1, 5)), ((1, 4), (1, 2)))
    niche = np.pad(np.array([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0]], np.uint8), 1, constant_values=1)
    assert not can_take_turns(niche, ((2, 1), (2, 2)), ((2, 5), (1, 3)))  # it stops at the door
    assert can_take_turns(niche, ((2, 1), (2, 3)), ((2, 3), (2, 5)))
    assert not can_take_turns(corridor, ((1, 1),), ((1, 2),))  # too near


@pytest.mark.parametrize("seed", range(6))
def test_robots_that_follow_the_cells_one_after_another_all_arrive(seed: int) -> None:
    """Planned in cells, driven in the simulator: corridors are wide enough, turns are possible."""
    env = JaxNav(num_agents=3, horizon=5000)
    task = generate(MapSpec(num_agents=3), seed)
    walls = np.asarray(task.walls)
    starts = [(int(y), int(x)) for x, y, _ in np.asarray(task.start[0])]
    goals = [(int(y), int(x)) for x, y in np.asarray(task.goal[0])]
    plans = (plan(walls, starts, goals, order) for order in itertools.permutations(range(3)))
    state, now = env.reset(KEY, task)
    step = jax.jit(env.step)
    for robot, cells in next(found for found in plans if found):
        for y, x in cells:
            for _ in range(200):
                dx, dy = np.array([x, y]) + 0.5 - np.asarray(state.place[robot])
                if np.hypot(dx, dy) < 0.1 or bool(state.done[robot]):
                    break
                off = np.angle(np.exp(1j * (np.arctan2(dy, dx) - float(state.heading[robot]))))
                stop = max(np.hypot(dx, dy) - 0.02, 0.0) * 2
                ahead = (0.0, 0.5)[int(abs(off) < 0.1 and stop > float(state.speed[robot, 0]))]
                turn = min((0.5, 0.25, 0.0, -0.25, -0.5), key=lambda w: abs(w - 1.5 * off))
                action = np.full(3, STAND)
                action[robot] = ACTIONS.index((ahead, turn))
                state, now = step(KEY, state, jnp.asarray(action), task)
    assert state.reached.tolist() == [True] * 3
    assert not bool(state.crashed.any())
    assert bool(now.terminated)


def plan(walls: np.ndarray, starts: list, goals: list, order: tuple) -> list:
    """Pairs of a robot and its cells, in this order; empty if somebody stands in the way."""
    standing, turns = set(starts), []
    for robot in order:
        standing.remove(starts[robot])
        cells = shortest_path(walls, starts[robot], goals[robot], standing)
        if not cells:
            return []
        turns.append((robot, cells[1:]))
        standing.update(cells[-2:])
    return turns


def grids(tasks: Task) -> list[bytes]:
    return [np.asarray(walls).tobytes() for walls in tasks.walls]


def test_games_are_drawn_from_the_situations_of_their_map() -> None:
    env, spec = JaxNav(), MapSpec(situations=4)
    task = generate(spec, 5)
    assert len(np.unique(np.asarray(task.start), axis=0)) == 4
    states, now = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(KEY, 200), task)
    matches = (states.place[:, None] == task.start[None, ..., :2]).all((2, 3))  # [game, situation]
    assert (matches.sum(1) == 1).all()
    which = np.asarray(matches.argmax(1))
    assert np.bincount(which, minlength=4).min() > 25
    np.testing.assert_array_equal(states.goal, task.goal[which])
    np.testing.assert_array_equal(states.heading, task.start[which, :, 2])
    # The distance to the goal is that of the game's own.
    far = np.minimum(np.hypot(*np.moveaxis(np.asarray(states.goal - states.place), -1, 0)), 6.0)
    np.testing.assert_allclose(now.view.obs[..., 202], far / 6 - 0.5, atol=1e-5)
    alone = generate(MapSpec(), 5)  # the first situation is the same, however many there are
    np.testing.assert_array_equal(alone.walls, task.walls)
    np.testing.assert_array_equal(alone.start, task.start[:1])


def test_sequences_repeat_from_their_seed_and_begin_alike() -> None:
    one, again, longer = sequence(3, 4, 100), sequence(3, 4, 100), sequence(3, 6, 100)
    for a, b in zip(jax.tree.leaves(one.tasks), jax.tree.leaves(again.tasks), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.tasks.start, longer.tasks.start[:4])
    assert one.names == ("map 1", "map 2", "map 3", "map 4")
    assert one.steps == 100
    assert one.tasks.id.tolist() == [0, 1, 2, 3]


def test_seeds_share_no_maps() -> None:
    maps = [grid for seed in range(10) for grid in grids(sequence(seed, 20, 1).tasks)]
    assert len(set(maps)) == len(maps)


def test_maps_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        MapSpec(4, 4, 0.5, 2)
    with pytest.raises(ValueError, match="sides must be from 3 to 32"):
        MapSpec(40, 7)
    with pytest.raises(ValueError, match="fill is 1"):
        MapSpec(fill=1.0)
    with pytest.raises(GenerationError, match="no new map"):
        sequence(0, 2, 1, MapSpec(4, 5, 0.0, 1, max_attempts=20))
    with pytest.raises(ValueError, match="gap"):
        make_task(HALL[:, :-1], [[2.5, 3.5, 0]], [[4.5, 3.5]])
    with pytest.raises(ValueError, match="robot 0 starts in a wall"):
        hall([[1.2, 3.5, 0]], [[4.5, 3.5]])
    with pytest.raises(ValueError, match="goal 0 is in a wall"):
        hall([[2.5, 3.5, 0]], [[4.5, 6.2]])
    with pytest.raises(ValueError, match="overlap at the start"):
        hall([[2.5, 3.5, 0], [2.9, 3.5, 0]], [[4.5, 3.5], [5.5, 3.5]])
    with pytest.raises(ValueError, match="robot 0 starts in a wall"):
        make_task(HALL, [[[2.5, 3.5, 0]], [[1.2, 3.5, 0]]], [[[4.5, 3.5]], [[4.5, 3.5]]])
    with pytest.raises(ValueError, match="situations is 0"):
        MapSpec(situations=0)
    with pytest.raises(ValueError, match="the environment expects"):
        JaxNav().reset(KEY, hall([[2.5, 3.5, 0]], [[4.5, 3.5]]))


# Pictures.


def has_colour(picture: np.ndarray, colour: tuple[int, ...]) -> bool:
    return bool((picture == colour).all(-1).any())


def test_a_picture_shows_walls_robots_and_goals_with_north_up() -> None:
    task = hall([[2.5, 1.5, 0.0], [2.5, 4.5, 0.0]], [[6.5, 1.5], [6.5, 4.5]])
    env = hall_env(2)
    picture = env.picture(task)
    assert picture.shape == (7 * 48, 10 * 48, 3)
    assert picture.dtype == np.uint8
    lower, upper = picture[5 * 48 : 6 * 48], picture[2 * 48 : 3 * 48]
    assert has_colour(lower, ROBOT_COLOURS[0])
    assert not has_colour(lower, ROBOT_COLOURS[1])
    assert has_colour(upper, ROBOT_COLOURS[1])
    assert picture[:48].mean() < 100 < picture[4 * 48 : 5 * 48, 48:-48].mean()


def test_frames_show_turns_arrivals_and_crashes() -> None:
    task = hall([[2.5, 3.5, 0.0]], [[6.5, 3.5]])
    state = rules.start(task)
    others = [
        state.replace(heading=state.heading + 1.0),
        state.replace(reached=jnp.array([True])),
        state.replace(crashed=jnp.array([True])),
    ]
    states = stacked([state, *others])
    frames = hall_env(1).frames(states, task)
    assert len({frame.tobytes() for frame in frames}) == 4
    np.testing.assert_array_equal(frames[0], hall_env(1).picture(task))
    assert Image.fromarray(frames[0]).size == (480, 336)


def test_a_batch_is_refused() -> None:
    task = hall([[2.5, 3.5, 0.0]], [[6.5, 3.5]])
    batch = jax.tree.map(lambda leaf: leaf[None], rules.start(task))
    with pytest.raises(ValueError, match="one state"):
        render(batch, task)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_agents": 5}, "num_agents is 5; it must be from 1 to 4"),
        ({"actions": "both"}, "use one of discrete, continuous"),
        ({"horizon": 0}, "horizon is 0"),
        ({"width": 2}, "sides must be"),
    ],
)
def test_wrong_settings_are_named(change: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        JaxNav(**change)
