"""The commands of documents, made small: quick, alike in what they compile, trained only once."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import pytest

from brigade.cli import crossplay, main
from brigade.launch import sweep as sweeps
from brigade.launch import targets
from brigade.runs import run as runs
from brigade.runs.assemble import assemble

# Small enough to be quick, and alike, so that little is compiled. The last flag wins.
SMALL = (
    "--tasks 2 --num-envs 2 --eval-every 1 --eval-episodes 2 --network.hidden 8 "
    "--network.multi-head --network.task-one-hot heads --ppo.minibatches 4 --ppo.epochs 1 "
    "--ppo.shaping-steps 1600"
)
SMALL_Q = (
    "--num-envs 4 --num-steps 12 --steps-per-task 48 --seeds 1 --eval-every 1 --eval-episodes 2 "
    "--q.buffer-size 64 --q.warm-up 4 --q.batch-size 4 --q.gradient-steps 2"
)
SMALL_PQN = "--num-envs 4 --num-steps 12 --steps-per-task 48 --seeds 1 --eval-episodes 2"
SMALL_CONTEXT = (
    "--tasks 1 --seeds 1 --num-envs 2 --steps-per-task 320 --eval-consecutive 2 --network.hidden 8"
)
SHORT_GAMES = "--env.horizon 40"  # cooks that plan are slow in programs that compile fast
SHORT = f"{SHORT_GAMES} --num-steps 40"
# One seed, because programs depend on how much of its kitchens can change. Two updates a task.
SMALL_LEVEL = "--seed 1 --seeds 2 --steps-per-task 1600"
SMALL_POPULATION = (  # one update
    "--members 2 --num-envs 8 --steps-per-task 160 --num-steps 20 --eval-every 1 "
    "--eval-episodes 1 --network.hidden 8 --ppo.minibatches 4 --ppo.epochs 1"
)
SMALLER = {  # by a word of the command
    "meal/level-1": SMALL_LEVEL,
    "--config": SMALL_LEVEL,
    "meal/table-2": "--seed 1 --seeds 1 --steps-per-task 800",
    "mappo": "--seeds 1 --steps-per-task 800",
    "gru": "--seeds 1 --steps-per-task 80 --num-steps 40",
    "examples/anchor.py:Anchor": "--steps-per-task 800 --method-settings.strength 0.1",
    "examples/anchor_table.py:TARGET": "--steps-per-task 800",
    "overcooked/layout": f"--steps-per-task 80 --tasks 1 {SHORT}",
    "overcooked_v2/layout": f"--steps-per-task 80 --tasks 1 {SHORT}",
    "overcooked_v2/stream": f"--seeds 1 --steps-per-task 80 {SHORT}",
    "meal/partners": f"--seeds 1 --steps-per-task 80 {SHORT}",
    "examples/meeting.py:meeting": "--seeds 1 --steps-per-task 48 --num-steps 24",
    "gym": "--num-envs 2 --num-steps 8 --steps-per-task 32 --eval-episodes 2 --env.horizon 20",
    "jaxnav/20": "--seeds 1 --steps-per-task 200 --num-steps 100",
    "zsc_eval/coordination_ring": (
        f"--tasks 1 --seeds 1 --steps-per-task 80 {SHORT} --ppo.minibatches 2"
    ),
    "zsc_eval/stream": f"--seeds 1 --steps-per-task 80 {SHORT}",
}
MOST_MAPS = 30_000  # half of what Linux allows a process


def commands_in(blocks: list[str]) -> list[list[str]]:
    """The commands of shell blocks, each as words, without comments and `make`."""
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines]
    return [words for words in commands if words and words[0] != "make"]


class Commands:
    """Runs commands of documents in this process.

    `run` and `population` are put together as they are written, with every setting checked. Then
    they are made small and trained, if a later command uses their folder or if they are the first
    with their benchmark, learner, memory, generator or kind of partner. What was trained before is
    copied. Likewise the first cross-play is played and the others are put together.
    """

    def __init__(self, store: Path) -> None:
        self.store = store
        self.trained: dict[str, runs.RunResult] = {}  # by their settings
        self.seen: set[str] = set()  # features

    def __call__(self, words: list[str], later: list[list[str]]) -> int:
        """Run one command and return its exit status; `later` are those that follow it."""
        program, *words = words
        program = program.removeprefix(".venv/bin/")
        if program == "python":
            return subprocess.run([sys.executable, *words]).returncode
        assert program == "brigade", f"{program} is not a command the documents may use"
        if "--help" in words or words == ["reproduce"]:
            return main(words)
        if words[0] in ("run", "population"):
            return self.train(words, later)
        if words[0] == "crossplay" and not self.is_new({"crossplay"}):
            return main_with(crossplay, "cross_play", stop, words)
        if words[0] == "sweep":  # all settings are checked; tests/unit/test_sweep.py trains
            return main_with(sweeps, "run_sweep", stop, words)
        if words[0] == "reproduce":
            return main_with(targets, "find_target", first_row, made_small(words))
        return main(made_small(words))

    def train(self, words: list[str], later: list[list[str]]) -> int:
        found: set[str] = set()

        def check(experiment, path, **how):
            assemble(experiment)
            found.update(features(experiment.as_dict()))
            raise Stopped

        status = main_with(runs, "run", check, words)
        if status == 0 and (self.is_new(found) | is_used(words, later)):
            status = main_with(runs, "run", self.train_or_copy, made_small(words))
        return status

    def train_or_copy(self, experiment, path, **how) -> runs.RunResult:
        settings = experiment.as_json("")
        if settings in self.trained:
            shutil.copytree(self.trained[settings].path, path)
        else:
            result = run_for_real(experiment, path, **how)
            kept = self.store / str(len(self.trained))
            shutil.copytree(path, kept)
            self.trained[settings] = replace(result, path=kept)
        return replace(self.trained[settings], path=path)

    def is_new(self, features: set[str]) -> bool:
        """Whether no command before had one of these."""
        new = not features <= self.seen
        self.seen |= features
        return new


run_for_real, find_target = runs.run, targets.find_target


class Stopped(Exception):
    """Leaves a command where it would train or play."""


def stop(*_, **__):
    raise Stopped


def main_with(module, name: str, replacement, words: list[str]) -> int:
    """The exit status of a command, with this function in place of the module's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, replacement)
        try:
            return main(words)
        except Stopped:
            return 0


def features(config: dict) -> set[str]:
    """What of a run has to be trained once. Contract tests train every method."""
    partners = {
        "code" if ".py:" in name else "file" if ".safetensors" in name else "script"
        for name in config["partners"]
    }
    named = {f"{kind} {config[kind]}" for kind in ("benchmark", "learner")}
    # Unit tests train every generator.
    named |= {"generator" if config["generator"] != "none" else "one learner"}
    return (
        named | {f"memory {config['network'].get('memory')}"} | {f"partner {p}" for p in partners}
    )


def is_used(words: list[str], later: list[list[str]]) -> bool:
    """Whether a later command names the folder or a file in it."""
    if "--out" not in words:
        return False
    out = words[words.index("--out") + 1]
    return any(word == out or word.startswith(f"{out}/") for command in later for word in command)


def made_small(words: list[str]) -> list[str]:
    """The same command on the smallest budget."""
    verb, flags = words[0], ""
    if {"iql", "vdn"} & set(words) or any(word.startswith("lifelong_hanabi/") for word in words):
        flags = SMALL_Q if verb in ("run", "reproduce") else ""
    elif any(word.startswith("icrl/") for word in words):
        flags = SMALL_CONTEXT
    elif "pqn" in words:
        flags = SMALL_PQN
    elif "examples/reinforce.py:Reinforce" in words:
        flags = "--num-envs 2 --num-steps 24 --steps-per-task 48 --eval-episodes 2"
    elif verb in ("run", "reproduce"):
        flags = " ".join([SMALL, *(SMALLER.get(word, "") for word in words)])
    elif verb == "population":
        short = any(word.startswith(("overcooked", "zsc_eval/")) for word in words)
        members = "--members 1" if "e3t" in words or "cole" in words else ""
        flags = f"{SMALL_POPULATION} {SHORT_GAMES if short else ''} {members}"
    elif verb == "crossplay":
        flags = f"--episodes 1 {SHORT_GAMES}"
    elif verb == "plan":
        flags = "--no-measure"
    elif words == ["bench"]:
        flags = "--help"  # test_cli measures
    elif words == ["doctor"]:
        flags = "--no-benchmark"
    return [*words, *flags.split()]


def first_row(*which):
    """A table of one row. tests/unit/test_reproduce.py has one of several."""
    target = find_target(*which)
    row = target.rows[0]
    published = {name: each for name, each in target.published.items() if name == row.name}
    return replace(target, rows=(row,), published=published)


def let_go_of_many_programs() -> None:
    """As after a module (see conftest), but only when there are many: documents share programs."""
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
