"""ZSC-Eval: make partners, choose them, train egos, measure zero-shot coordination.

A study is a folder. Every run and every computation in it is done once; a stopped study continues
where it was. Runs with other settings are refused; selection and measurement are done again if
their inputs have changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import safe_open

from brigade import registry
from brigade.benchmarks.zsc_eval import kitchen, num_partners, table_of
from brigade.benchmarks.zsc_scales import SMALL, Scale
from brigade.core import Benchmark, Cast
from brigade.envs.overcooked.preferences import candidates as all_candidates
from brigade.errors import UserError
from brigade.launch.audit import acting_twins, greedy_actions, probe_views, refuse_leakage
from brigade.launch.films import seated
from brigade.launch.stage import Computation, Run, Runs, Stage
from brigade.partners.files import Policies, load_policies
from brigade.registry import unknown_name
from brigade.report.zsc_candidates import (
    Behaviour,
    as_arrays,
    choose,
    read_behaviour,
    without,
)
from brigade.runs.config import Experiment, from_dict, merged
from brigade.runs.export import policies_of, provenance
from brigade.runs.folder import npz_bytes, read_npz, write_atomically
from brigade.runs.run import RunResult, load
from brigade.runs.snapshots import at_stages
from brigade.train.crossplay import play_with
from brigade.train.films import film_episode

PARTNERS, RESPONSES = "partners.safetensors", "responses.safetensors"
POOL = "pool.safetensors"  # biased policies that are not evaluation partners, to train with
PLAYED = "played.npz"
POPULATION = "population.safetensors"  # in the folder of a run
# How each algorithm makes its ego: by itself, or with a population.
ALONE = ("sp", "e3t", "cole", "cec")
COPLAY = ("fcp", "mep", "trajedi", "hsp", "brdiv", "lbrdiv", "comedi")
ALGORITHMS = ("sp", "e3t", "fcp", "mep", "trajedi", "hsp", "cole")  # the paper's
KNOWN = (*ALGORITHMS, "cec", "brdiv", "lbrdiv", "comedi")


@dataclass(frozen=True)
class Study:
    """A study of one layout. `words` are flags of `brigade run` that apply to all its runs."""

    layout: str
    folder: Path
    scale: Scale = SMALL
    algorithms: tuple[str, ...] = ALGORITHMS
    seed: int = 0
    words: Sequence[str] = ()

    def __post_init__(self) -> None:
        kitchen(self.layout)
        for name in self.algorithms:
            if name not in KNOWN:
                raise UserError(unknown_name("algorithm", name, KNOWN))

    @property
    def benchmark(self) -> str:
        """The name of the layout's benchmark."""
        return f"zsc_eval/{self.layout}"

    @property
    def num_candidates(self) -> int:
        """How many biased policies are trained."""
        return self.scale.candidates or len(all_candidates(table_of(self.layout)))

    @property
    def num_partners(self) -> int:
        """How many evaluation partners are chosen, before their earlier selves are added."""
        return self.scale.partners or num_partners(self.layout)

    # --- runs ---

    def seed_of(self, name: str) -> int:
        """Every run of a study has its own seed: equal seeds mean equal initial networks."""
        return self.seed + 1000 * (1 + KNOWN.index(name))

    def fading(self, steps: float) -> dict[str, Any]:
        """At the paper's scale, shaped rewards fade over a run."""
        return {"ppo": {"shaping_steps": steps}} if self.scale.fades else {}

    def experiment(self, settings: Mapping[str, Any], steps: float, envs: int) -> Experiment:
        """An experiment of the study with so many steps and environments in all."""
        horizon = self.scale.horizon
        updates = max(1, round(steps / (envs * horizon)))
        common = {
            "benchmark": self.benchmark,
            "preset": self.scale.preset,
            "seed": self.seed,
            "num_envs": envs,
            "num_steps": horizon,
            "env": {"horizon": horizon},
            "steps_per_task": steps,
            "eval_every": max(1, updates // self.scale.evaluations),
        }
        return from_dict(merged(common, settings), self.words)

    def game(self) -> tuple[Benchmark, Any]:
        """Where egos are measured, and the task."""
        benchmark = self.candidates_run().experiment.benchmark()
        return benchmark, benchmark.sequence(0, 1, 1)[0]

    def run(self, name: str, path: Path, make: Callable[[], Experiment], *needs: Path) -> Run:
        """A run whose policies are exported."""
        return Run(name, path, make, needs, lambda result, how: export(result))

    def candidates_run(self) -> Run:
        """All candidates and their best responses, in one program."""
        name = f"{self.num_candidates} biased policies and their best responses"
        return self.run(name, self.folder / "candidates", self.candidates)

    def candidates(self) -> Experiment:
        """Their settings."""
        number, scale = self.num_candidates, self.scale
        settings = {
            "generator": "hsp",
            "generator_settings": {"members": number, "table": table_of(self.layout)},
            "eval_episodes": scale.feature_episodes,
            "snapshots": scale.evaluations,
            **self.fading(scale.candidate_steps),
        }
        return self.experiment(settings, scale.candidate_steps * number, scale.envs * number)

    def population_run(self, name: str) -> Run:
        """A population for co-play."""
        path = self.folder / "populations" / name
        return self.run(f"population {name}", path, partial(self.population, name))

    def population(self, name: str) -> Experiment:
        """The settings of a population."""
        scale = self.scale
        settings = {
            "generator": name,
            "generator_settings": {"members": scale.members},
            "seed": self.seed_of(name) + 500,  # other than the egos'
        }
        tables = registry.get("generators", name)(members=scale.members).tables
        envs = max(scale.envs * scale.members // tables, 1) * tables
        return self.experiment(settings, scale.population_steps * scale.members, envs)

    def ego_run(self, name: str) -> Run:
        """The egos of an algorithm, one per seed."""
        path, files = self.folder / "egos" / name, self.training_files(name)
        return self.run(f"ego {name}", path, partial(self.ego, name), *files)

    def ego(self, name: str) -> Experiment:
        """The settings of egos."""
        seeds = {"seeds": self.scale.seeds, "seed": self.seed_of(name)}
        settings = self.alone(name) if name in ALONE else self.coplay(name)
        return self.experiment(seeds | settings, self.ego_steps(name), self.scale.envs)

    def ego_steps(self, name: str) -> float:
        """The environment steps of each ego of an algorithm."""
        scale = self.scale
        steps = {"cec": scale.cec_steps, "cole": scale.cole_steps}
        return steps.get(name, scale.alone_steps if name in ALONE else scale.ego_steps)

    def alone(self, name: str) -> dict[str, Any]:
        """How egos learn without a population."""
        scale = self.scale
        archive = {"archive": scale.archive, "generation": scale.generation}
        cole = {"generator": "cole", "generator_settings": archive}
        settings: dict[str, dict[str, Any]] = {
            "sp": {},
            "e3t": {"generator": "e3t"},
            "cec": {"env": {"kitchens": scale.kitchens}},
            "cole": cole | self.fading(scale.cole_steps),
        }
        return settings[name]

    def coplay(self, name: str) -> dict[str, Any]:
        """How egos learn with a population, in which no evaluation partner may be."""
        benchmark, task = self.game()
        files = self.training_files(name)
        refuse_leakage(benchmark.env, task, self.folder / "selection" / PARTNERS, files)
        settings = {
            "partners": [str(file) for file in files],
            "partners_of_seed": self.partners_of_seed(name),
            "network": {"memory": self.scale.memory},
            "eval_episodes": 4,
            **self.fading(self.scale.ego_steps),
        }
        if name == "mep":
            settings |= {"partner_sampling": "ranked", "rank_exponent": 0.5}
        return settings

    def training_files(self, name: str) -> list[Path]:
        """The policy files that an ego is trained with."""
        if name in ALONE:
            return []
        mep = self.folder / "populations" / "mep" / POPULATION
        if name == "hsp":
            return [mep, self.folder / "selection" / POOL]
        return [self.folder / "populations" / name / POPULATION]

    def partners_of_seed(self, name: str) -> list[str]:
        """Whom each ego meets: some agents of the population at all their skills, another choice
        for every seed. Half of HSP's partners are the biased policies, the same for all."""
        population, *pool = map(load_policies, self.training_files(name))
        biased = [member for policies in pool for member in policies.names]
        agents = agents_of(population)
        number = max(1, round(len(biased) / 3)) if biased else self.scale.met
        return [
            ",".join([*rotated(agents, number, seed), *biased]) for seed in range(self.scale.seeds)
        ]

    def populations(self) -> list[str]:
        """The populations that the algorithms need."""
        wanted = {"mep" if name == "hsp" else name for name in self.algorithms if name in COPLAY}
        return [name for name in COPLAY if name in wanted]

    # --- all of it ---

    def stages(self) -> tuple[Stage, ...]:
        """From candidates to the games that are measured."""
        return (
            Runs("candidates", [self.candidates_run()]),
            self.selection_stage(),
            Runs("populations", [self.population_run(name) for name in self.populations()]),
            Runs("egos", [self.ego_run(name) for name in self.algorithms]),
            self.measurement_stage(),
        )

    @property
    def played(self) -> Path:
        """The file of all games that were played."""
        return self.folder / "measurement" / PLAYED

    def steps(self) -> float:
        """The environment steps of all runs."""
        scale = self.scale
        return (
            self.num_candidates * scale.candidate_steps
            + len(self.populations()) * scale.members * scale.population_steps
            + scale.seeds * sum(map(self.ego_steps, self.algorithms))
        )

    # --- selection ---

    def selection_stage(self) -> Computation:
        """Choose evaluation partners from the candidates."""
        return Computation(
            name="selection",
            folder=self.folder / "selection",
            settings={
                "partners": self.num_partners,
                "biased": self.scale.biased,
                "min_return": self.scale.min_return,
                "episodes": self.scale.episodes,
                "seed": self.seed,
            },
            files=[self.candidates_run().path / "returns.npz"],
            work=self.select,
        )

    def select(self, folder: Path) -> None:
        """Write the chosen partners, their best responses, and what is left to train with."""
        path = self.candidates_run().path
        behaviour = read_behaviour(read_npz(path / "returns.npz"))
        try:
            chosen = choose(behaviour, self.num_partners, self.scale.min_return)
        except ValueError as error:
            raise UserError(f"{self.layout}: {error}; train the candidates longer") from error
        every = policies_of(load(path), helpers=True)
        names = [str(name) for name in chosen.value]
        biased = at_stages(path, every.only(names), ("final", "mid"))
        kept = [f"response-{str(name).removeprefix('biased-')}" for name in chosen.kept]
        responses = every.only(kept)
        write_half(folder / PARTNERS, biased)
        write_half(folder / RESPONSES, responses)
        twins = self.twins(biased, every.only(behaviour.names))
        rest = without(behaviour, {*chosen.value, *twins})
        pool = left_over(rest, self.scale.biased, self.scale.min_return)
        if pool:
            write_half(folder / POOL, every.only(pool))
        elif "hsp" in self.algorithms:
            raise UserError(
                f"{self.layout}: no candidate is left for HSP's population; choose fewer partners, "
                "train more candidates or leave out the algorithm hsp"
            )
        # From the files: in half precision, as everyone else will meet them.
        returns = self.play(load_policies(folder / RESPONSES), folder / PARTNERS)
        best = best_of(returns)
        write_atomically(folder / "behaviour.npz", npz_bytes(as_arrays(behaviour)))
        found = {
            "layout": self.layout,
            "chosen": list(chosen.value),
            "kept": list(chosen.kept),
            "dropped": [name for name in behaviour.names if name not in chosen.kept],
            "determinant": chosen.determinant,
            "partners": list(biased.names),
            "best_responses": best.tolist(),
            "episodes": self.scale.episodes,
        }
        write_atomically(folder / "selection.json", json.dumps(found, indent=2).encode())

    def twins(self, partners: Policies, candidates: Policies) -> set[str]:
        """Candidates that act like an evaluation partner."""
        benchmark, task = self.game()
        probes = probe_views(benchmark.env, task)
        acts = greedy_actions(partners, probes)
        return {name for _, name in acting_twins(partners, acts, candidates, probes)}

    def read_selection(self) -> dict[str, Any]:
        """What was chosen, and how well best responses do with it."""
        file = self.folder / "selection" / "selection.json"
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def play(self, egos: Policies, partners: Path) -> np.ndarray:
        """Returns [ego, partner, seat, episode]."""
        benchmark, task = self.game()
        cast: Cast = load_policies(partners).cast()
        key = jax.random.key(self.seed)
        return play_with(benchmark.env, task, egos.cast(), cast, self.scale.episodes, key)

    # --- measurement ---

    def measurement_stage(self) -> Computation:
        """Play all egos with all evaluation partners."""
        egos = [self.folder / "egos" / name / POPULATION for name in self.algorithms]
        partners = self.folder / "selection" / PARTNERS
        return Computation(
            name="measurement",
            folder=self.folder / "measurement",
            settings={
                "episodes": self.scale.episodes,
                "algorithms": list(self.algorithms),
                "seed": self.seed,
            },
            files=[partners, self.folder / "selection" / "selection.json", *egos],
            work=self.measure,
        )

    def measure(self, folder: Path) -> None:
        """Write the returns of all games."""
        selection = self.read_selection()
        arrays = measured_before(folder / PLAYED, selection)  # of other algorithms
        for name in self.algorithms:
            egos = load_policies(self.folder / "egos" / name / POPULATION)
            arrays[name] = self.play(egos, self.folder / "selection" / PARTNERS)
        arrays["best_responses"] = np.asarray(selection["best_responses"])
        arrays["partners"] = np.array(selection["partners"])
        write_atomically(folder / PLAYED, npz_bytes(arrays))
        self.film(arrays)

    def film(self, played: Mapping[str, np.ndarray]) -> None:
        """Record the ego with the highest mean return, with its best, median and worst partner."""
        best = max(self.algorithms, key=lambda name: float(played[name].mean()))
        egos = load_policies(self.folder / "egos" / best / POPULATION)
        partners = load_policies(self.folder / "selection" / PARTNERS)
        by_return = np.argsort(played[best][0].mean((1, 2)))
        chosen = {int(by_return[place]) for place in (0, len(by_return) // 2, -1)}
        benchmark, task = self.game()
        for index in sorted(chosen):
            name = partners.names[index]
            path = self.folder / "films" / f"{best}-with-{name}.gif"
            casts = [egos.only(egos.names[:1]).cast(), partners.only([name]).cast()]
            players, acting = seated(benchmark.env, casts)
            key = jax.random.key(self.seed)
            film_episode(benchmark.env, players, acting, task, key).save(path)


def export(result: RunResult) -> None:
    """Write the policies of a run in half precision, unless they are there."""
    file = result.path / POPULATION
    if file.exists() and is_half(file):  # `brigade run` exports a population in full precision
        return
    generator = result.experiment.generator
    stages = ("final",) if generator is None else generator.stages
    policies = at_stages(result.path, policies_of(load(result.path)), stages)
    write_half(file, policies)


def write_half(path: Path, policies: Policies) -> None:
    """Write a policy file in half precision."""
    write_atomically(path, policies.as_bytes(half=True))


def is_half(file: Path) -> bool:
    """Whether a policy file has half precision."""
    with safe_open(file, "numpy") as arrays:
        return all(arrays.get_slice(name).get_dtype() == "F16" for name in arrays.keys())  # noqa: SIM118


def agents_of(population: Policies) -> list[list[str]]:
    """The names of a population's members by agent: each has one per skill."""
    agents: dict[str, list[str]] = {}
    for member in population.members:
        agents.setdefault(provenance(member)["name"], []).append(str(member["name"]))
    return list(agents.values())


def rotated(agents: Sequence[list[str]], number: int, seed: int) -> list[str]:
    """Whom a seed meets of the agents: every seed begins a fifth of them further."""
    first = seed * max(1, len(agents) // 5)
    places = range(first, first + min(number, len(agents)))
    return [name for place in places for name in agents[place % len(agents)]]


def measured_before(path: Path, selection: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The games of an earlier measurement with the same partners and best responses."""
    if not path.exists():
        return {}
    found = read_npz(path)
    same = found["partners"].tolist() == selection["partners"] and np.array_equal(
        found["best_responses"], np.asarray(selection["best_responses"])
    )
    return found if same else {}


def best_of(returns: np.ndarray) -> np.ndarray:
    """Returns [partner, seat] of the best of all responses [response, partner, seat, episode].

    Half of the episodes say which response is best, the other half how good it is: the maximum of
    noisy means would be too high.
    """
    half = max(returns.shape[-1] // 2, 1)
    chosen = returns[..., :half].mean(-1).argmax(0)
    means = returns[..., -half:].mean(-1)
    return np.asarray(np.take_along_axis(means, chosen[None], axis=0)[0])


def left_over(rest: Behaviour, number: int, min_return: float) -> Sequence[str]:
    """Candidates to train with: the most different ones among those not chosen."""
    delivering = int((rest.returns > min_return).sum())
    if not delivering:
        return []
    return [str(name) for name in choose(rest, min(number, delivering), min_return).value]
