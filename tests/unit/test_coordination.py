"""How cooks share their work, worked by hand."""

import numpy as np
import pytest

from brigade.envs.overcooked.events import EVENTS
from brigade.metrics.coordination import IDLE, USEFUL, delivery_share, idle_share, role_collapse


def table(*seats):
    """[seat, kind] from what each seat did."""
    return np.array([[did.get(name, 0) for name in EVENTS] for did in seats], float)


def test_the_events_are_those_of_the_kitchen():
    assert set(USEFUL) | set(IDLE) <= set(EVENTS)


def test_deliveries_are_shared_three_to_one():
    events = table({"delivery": 3}, {"delivery": 1, "stay": 9})
    assert delivery_share(events, EVENTS).tolist() == [0.75, 0.25]
    assert np.isnan(delivery_share(table({}, {}), EVENTS)).all()


def test_role_collapse_is_0_for_equal_and_1_for_solo_work():
    equal = table({"delivery": 2}, {"soup_pickup": 2})
    solo = table({"delivery": 5, "placement_in_pot": 15}, {"stay": 40})
    assert role_collapse(equal, EVENTS) == 0.0
    assert role_collapse(solo, EVENTS) == 1.0
    # 6 of 8 useful acts: (3/4 - 1/2) / (1 - 1/2)
    assert role_collapse(table({"delivery": 6}, {"delivery": 2}), EVENTS) == 0.5
    # three seats, 2/4 of the acts: (1/2 - 1/3) / (2/3)
    three = table({"delivery": 2}, {"delivery": 1}, {"delivery": 1})
    assert role_collapse(three, EVENTS) == pytest.approx(0.25)
    assert np.isnan(role_collapse(table({"delivery": 1}), EVENTS))


def test_idle_steps_are_a_share_of_the_episode():
    events = table(
        {"stay": 10, "idle_move": 5, "move": 50},
        {"idle_interact_counter": 1, "idle_interact_empty": 3},
    )
    assert idle_share(events, EVENTS, 40).tolist() == [0.375, 0.1]


def test_axes_in_front_are_kept():
    events = np.stack([table({"delivery": 1}, {}), table({}, {"delivery": 2})])
    assert delivery_share(events, EVENTS).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert role_collapse(events, EVENTS).shape == (2,)


def test_wrong_tables_are_refused():
    with pytest.raises(ValueError, match="17 kinds"):
        delivery_share(np.zeros((2, 3)), EVENTS)
    with pytest.raises(ValueError, match="do not include delivery"):
        delivery_share(np.zeros((2, 1)), ("stay",))
    with pytest.raises(ValueError, match="steps must be positive"):
        idle_share(table({}), EVENTS, 0)
