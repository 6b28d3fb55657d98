"""Kitchens generated per second on one core, for each level; the last line is JSON."""

from __future__ import annotations

import argparse
import json
import time
from random import Random

from brigade.envs.overcooked.generate import LEVELS, draw_kitchen, generate_sequence


def kitchens_per_second(level: str, seconds: float, batch: int = 50) -> float:
    """Generate sequences of `batch` kitchens for about the given time."""
    made = 0
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds or not made:
        made += len(generate_sequence(level, batch, seed=made))
    return made / elapsed


def mean_attempts(level: str, num: int = 100) -> float:
    """Attempts for one valid kitchen, on average."""
    rng = Random(0)
    return sum(draw_kitchen(LEVELS[level], rng, num_agents=2)[1] for _ in range(num)) / num


def main() -> None:
    """Print a line for each level, then all of them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each level")
    seconds = parser.parse_args().seconds
    per_minute = {}
    for level in LEVELS:
        rate = kitchens_per_second(level, seconds)
        attempts = mean_attempts(level)
        print(f"{level:16s} {rate:8.0f} kitchens/s {attempts:8.1f} attempts each", flush=True)
        per_minute[level] = round(60 * rate)
    print(json.dumps({"bench": "generate_kitchens", "kitchens_per_minute": per_minute}))


if __name__ == "__main__":
    main()
