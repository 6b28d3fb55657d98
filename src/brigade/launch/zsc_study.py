"""ZSC-Eval: make partners, choose them, train egos, measure zero-shot coordination.

A study is a folder. Every run and every computation in it is done once; a stopped study continues
where it was. Runs with other settings are refused; selection and measurement are done again if
their inputs have changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from brigade import registry
from brigade.benchmarks.zsc_eval import kitchen, num_partners, table_of
from brigade.benchmarks.zsc_scales import SMALL, Scale
from brigade.core import Benchmark, Cast
from brigade.envs.overcooked.preferences import candidates as all_candidates
from brigade.errors import UserError
from brigade.launch.audit import acting_twins, greedy_actions, probe_views, refuse_leakage
from brigade.launch.films import save_film
from brigade.launch.stage import Stage
from brigade.partners.files import Policies, load_policies
from brigade.registry import unknown_name
from brigade.report.zsc_candidates import (
    Behaviour,
    as_arrays,
    choose,
    read_behaviour,
    without,
)
from brigade.runs.assemble import assemble
from brigade.runs.config import Experiment, from_dict, merged
from brigade.runs.ensure import check_settings, start_or_resume
from brigade.runs.export import policies_of, provenance
from brigade.runs.folder import npz_bytes, read_npz, write_atomically
from brigade.runs.run import load
from brigade.runs.snapshots import at_stages
from brigade.train.crossplay import play_with

PARTNERS, RESPONSES = "partners.safetensors", "responses.safetensors"
POOL = "pool.safetensors"  # biased policies that are not evaluation partners, to train with
PLAYED = "played.npz"
# How each algorithm makes its ego: by itself, or with a population.
ALONE = ("sp", "e3t", "cole", "cec")
COPLAY = ("fcp", "mep", "trajedi", "hsp", "brdiv", "lbrdiv", "comedi")
ALGORITHMS = ("sp", "e3t", "fcp", "mep", "trajedi", "hsp", "cole")  # the paper's
KNOWN = (*ALGORITHMS, "cec", "brdiv", "lbrdiv", "comedi")


LAST_STEP = "measurement"
Say = Callable[[str], None]
Step = tuple[str, Callable[[bool, Say], None]]  # its name, and a function of (quiet, tell)


@dataclass(frozen=True)
class Study:
    """A study of one layout. `words` are flags of `brigade run` that apply to all its runs."""

    layout: str
    folder: Path
    scale: Scale = SMALL
    algorithms: tuple[str, ...] = ALGORITHMS
    seed: int = 0
    words: tuple[str, ...] = ()

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
        benchmark = self.candidates_run()[1].benchmark()
        return benchmark, benchmark.sequence(0, 1, 1)[0]

    def candidates_run(self) -> tuple[Path, Experiment]:
        """All candidates and their best responses, in one program."""
        number, scale = self.num_candidates, self.scale
        settings = {
            "generator": "hsp",
            "generator_settings": {"members": number, "table": table_of(self.layout)},
            "eval_episodes": scale.feature_episodes,
            "snapshots": scale.evaluations,
            **self.fading(scale.candidate_steps),
        }
        experiment = self.experiment(settings, scale.candidate_steps * number, scale.envs * number)
        return self.folder / "candidates", experiment

    def population_run(self, name: str) -> tuple[Path, Experiment]:
        """A population for co-play."""
        scale = self.scale
        settings = {
            "generator": name,
            "generator_settings": {"members": scale.members},
            "seed": self.seed_of(name) + 500,  # other than the egos'
        }
        tables = registry.get("generators", name)(members=scale.members).tables
        envs = max(scale.envs * scale.members // tables, 1) * tables
        experiment = self.experiment(settings, scale.population_steps * scale.members, envs)
        return self.folder / "populations" / name, experiment

    def ego_run(self, name: str) -> tuple[Path, Experiment]:
        """The egos of an algorithm, one per seed."""
        scale, path = self.scale, self.folder / "egos" / name
        seeds: dict[str, Any] = {"seeds": scale.seeds, "seed": self.seed_of(name)}
        if name == "sp":
            return path, self.experiment(seeds, scale.alone_steps, scale.envs)
        if name == "cec":
            settings = seeds | {"env": {"kitchens": scale.kitchens}}
            return path, self.experiment(settings, scale.cec_steps, scale.envs)
        if name == "e3t":
            return path, self.experiment(seeds | {"generator": name}, scale.alone_steps, scale.envs)
        if name == "cole":
            archive = {"archive": scale.archive, "generation": scale.generation}
            settings = seeds | {"generator": name, "generator_settings": archive}
            settings |= self.fading(scale.cole_steps)
            return path, self.experiment(settings, scale.cole_steps, scale.envs)
        settings = seeds | {
            "partners": [str(file) for file in self.training_files(name)],
            "partners_of_seed": self.partners_of_seed(name),
            "network": {"memory": scale.memory},
            "eval_episodes": 4,
            **self.fading(scale.ego_steps),
        }
        if name == "mep":
            settings |= {"partner_sampling": "ranked", "rank_exponent": 0.5}
        return path, self.experiment(settings, scale.ego_steps, scale.envs)

    def training_files(self, name: str) -> list[Path]:
        """The policy files that an ego is trained with."""
        if name in ALONE:
            return []
        mep = self.folder / "populations" / "mep" / "population.safetensors"
        if name == "hsp":
            return [mep, self.folder / "selection" / POOL]
        return [self.folder / "populations" / name / "population.safetensors"]

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

    def run(self, quiet: bool = False, say: Say = print, until: str = LAST_STEP) -> None:
        """Do the steps that are not done yet, up to and including `until`."""
        self.check()
        tell = (lambda text: None) if quiet else say
        steps = self.steps()
        last = [name for name, _ in steps].index(until)
        for _, do in steps[: last + 1]:
            do(quiet, tell)

    def steps(self) -> tuple[Step, ...]:
        """All steps, in the order in which they are done."""
        return (
            ("candidates", self.train_candidates),
            ("selection", self.choose_partners),
            ("populations", self.train_populations),
            ("egos", self.train_egos),
            (LAST_STEP, self.play_all),
        )

    def train_candidates(self, quiet: bool, tell: Say) -> None:
        """Train the candidates and their best responses."""
        tell(f"candidates: {self.num_candidates} biased policies and their best responses")
        self.ensure_run(*self.candidates_run(), quiet)

    def choose_partners(self, quiet: bool, tell: Say) -> None:
        """Choose the evaluation partners."""
        self.selection_stage().ensure()
        found = self.read_selection()
        chosen, kept, dropped = (len(found[name]) for name in ("chosen", "kept", "dropped"))
        tell(f"selection: {chosen} of {kept} candidates that deliver; {dropped} dropped")

    def train_populations(self, quiet: bool, tell: Say) -> None:
        """Train the populations that egos learn with."""
        for name in self.populations():
            tell(f"population: {name}")
            self.ensure_run(*self.population_run(name), quiet)

    def train_egos(self, quiet: bool, tell: Say) -> None:
        """Train the egos, with partners that were checked."""
        for name in self.algorithms:
            tell(f"ego: {name}")
            self.audit(name)
            self.ensure_run(*self.ego_run(name), quiet)

    def play_all(self, quiet: bool, tell: Say) -> None:
        """Play all egos with all evaluation partners."""
        tell("measurement")
        self.measurement_stage().ensure()

    @property
    def played(self) -> Path:
        """The file of all games that were played."""
        return self.folder / "measurement" / PLAYED

    def check(self) -> None:
        """Check all settings that can be checked before anything is trained."""
        runs = [self.candidates_run(), *(self.population_run(name) for name in self.populations())]
        runs += [self.ego_run(name) for name in self.algorithms if name in ALONE]
        for _, experiment in runs:
            assemble(experiment)
        check_settings([path for path, _ in runs], [experiment for _, experiment in runs])

    def ensure_run(self, path: Path, experiment: Experiment, quiet: bool) -> None:
        """Train, continue or find a run, and export its policies."""
        check_settings([path], [experiment])
        start_or_resume(path, experiment, quiet)
        file = path / "population.safetensors"
        if not file.exists():
            generator = experiment.generator
            stages = ("final",) if generator is None else generator.stages
            policies = at_stages(path, policies_of(load(path)), stages)
            write_atomically(file, policies.as_bytes(half=True))
        jax.clear_caches()  # the programs of many runs would exceed the memory maps of a process

    # --- selection ---

    def selection_stage(self) -> Stage:
        """Choose evaluation partners from the candidates."""
        path, _ = self.candidates_run()
        return Stage(
            name="selection",
            folder=self.folder / "selection",
            settings={
                "partners": self.num_partners,
                "biased": self.scale.biased,
                "min_return": self.scale.min_return,
                "episodes": self.scale.episodes,
                "seed": self.seed,
            },
            files=[path / "returns.npz"],
            work=self.select,
        )

    def select(self, folder: Path) -> None:
        """Write the chosen partners, their best responses, and what is left to train with."""
        path, _ = self.candidates_run()
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
        self.save(folder / PARTNERS, biased)
        self.save(folder / RESPONSES, responses)
        twins = self.twins(biased, every.only(behaviour.names))
        rest = without(behaviour, {*chosen.value, *twins})
        pool = left_over(rest, self.scale.biased, self.scale.min_return)
        if pool:
            self.save(folder / POOL, every.only(pool))
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

    def save(self, path: Path, policies: Policies) -> None:
        """Write a policy file in half precision."""
        write_atomically(path, policies.as_bytes(half=True))

    def play(self, egos: Policies, partners: Path) -> np.ndarray:
        """Returns [ego, partner, seat, episode]."""
        benchmark, task = self.game()
        cast: Cast = load_policies(partners).cast()
        key = jax.random.key(self.seed)
        return play_with(benchmark.env, task, egos.cast(), cast, self.scale.episodes, key)

    # --- measurement ---

    def audit(self, name: str) -> None:
        """Refuse to train an ego with its evaluation partners."""
        benchmark, task = self.game()
        partners = self.folder / "selection" / PARTNERS
        refuse_leakage(benchmark.env, task, partners, self.training_files(name))

    def measurement_stage(self) -> Stage:
        """Play all egos with all evaluation partners."""
        egos = [self.folder / "egos" / name / "population.safetensors" for name in self.algorithms]
        partners = self.folder / "selection" / PARTNERS
        return Stage(
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
            egos = load_policies(self.folder / "egos" / name / "population.safetensors")
            arrays[name] = self.play(egos, self.folder / "selection" / PARTNERS)
        arrays["best_responses"] = np.asarray(selection["best_responses"])
        arrays["partners"] = np.array(selection["partners"])
        write_atomically(folder / PLAYED, npz_bytes(arrays))
        self.film(arrays)

    def film(self, played: Mapping[str, np.ndarray]) -> None:
        """Record the ego with the highest mean return, with its best, median and worst partner."""
        best = max(self.algorithms, key=lambda name: float(played[name].mean()))
        egos = load_policies(self.folder / "egos" / best / "population.safetensors")
        partners = load_policies(self.folder / "selection" / PARTNERS)
        by_return = np.argsort(played[best][0].mean((1, 2)))
        chosen = {int(by_return[place]) for place in (0, len(by_return) // 2, -1)}
        benchmark, task = self.game()
        for index in sorted(chosen):
            name = partners.names[index]
            path = self.folder / "films" / f"{best}-with-{name}.gif"
            ego = egos.only(egos.names[:1])
            save_film(benchmark.env, task, ego, partners.only([name]), path, self.seed)


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
