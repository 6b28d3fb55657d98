"""The command line: what it prints, and that every mistake is one line, status 2, no traces."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import pytest

from brigade.cli import VERBS, bench, main, watch
from brigade.cli.flags import interrupt
from brigade.runs.run import load
from brigade.train import Players, Trainer, play

TINY = (
    "meal/level-1 --tasks 2 --seeds 2 --steps-per-task 1600 --num-envs 2 --eval-every 1 "
    "--eval-episodes 2 --network.hidden 8 --ppo.minibatches 4 --ppo.epochs 1"
).split()
METHOD = '''
from dataclasses import dataclass
import jax
from brigade.core import ContinualMethod

@dataclass(frozen=True)
class Halver(ContinualMethod):
    """Learns half as fast."""
    share: float = 0.5
    def edit_grads(self, mem, grads, params, loss_on, key):
        return jax.tree.map(lambda g: self.share * g, grads)
'''
BROKEN = """
from dataclasses import dataclass

def needs(argument):
    pass

@dataclass
class Loose:
    size: int = 1
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path(__file__).parents[2] / ".cache"))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run meal/level-9", "unknown benchmark 'meal/level-9': did you mean 'meal/level-3'?"),
        ("run meal/level-1 --method fft", "unknown method 'fft': did you mean 'ft'?"),
        ("run meal/level-1 --learner ipo", "unknown learner 'ipo': did you mean 'ippo'?"),
        ("run meal/level-1 --sedes 2", "unknown setting 'sedes': did you mean 'seeds'?"),
        ("run meal/level-1 --ppo.epoch 2", "'ppo.epoch': did you mean 'ppo.epochs'?"),
        ("run", "no benchmark given"),
        ("run meal/level-1 3", "unexpected '3' after the benchmark"),
        ("run meal/level-1 --ppo.lr 1", "'ppo.lr': did you mean 'ppo.learning-rate'?"),
        ("run meal/level-1 --lr 1", "'lr': did you mean 'ppo.learning-rate'?"),
        ("run meal/level-1 --epochs 1", "'epochs': did you mean 'ppo.epochs'?"),
        ("run meal/level-1 --env.layout x", "'env.layout': see brigade run --help"),
        ("run meal/level-1 --seeds two", "brigade: --seeds: 'two' is not an integer"),
        ("run meal/level-1 --seeds", "brigade: --seeds needs a value"),
        ("run meal/level-1 --method", "brigade: --method needs a value"),
        ("run meal/level-1 --seeds 0", "seeds is 0; it must be a number of at least 1"),
        ("run meal/level-1 --seed -1", "seed is -1; it must be a number of at least 0"),
        ("run meal/level-1 --seed 99999999999999999999", "it must be from 0 to 429496729"),
        ("run meal/level-1 --tasks -3", "tasks is -3"),
        ("run meal/level-1 --steps-per-task nan", "steps_per_task is nan"),
        ("run meal/level-1 --steps-per-task 0", "steps_per_task is 0.0; it must be a positive"),
        ("run meal/level-1 --ppo.learning-rate nan", "learning_rate is nan"),
        ("run meal/level-1 --ppo.gamma 2", "brigade: gamma is 2.0; it must be from 0.0 to 1.0"),
        ("run meal/level-1 --network.encoder rnn", "unknown encoder 'rnn'"),
        ("run meal/level-1 --network.hidden 0", "hidden is 0"),
        ("run meal/level-1 --ppo.minibatches 7", "do not divide into 7 minibatches"),
        ("run meal/level-1 --preset lap", "unknown preset 'lap': did you mean 'laptop'?"),
        ("run broken.py:needs", "broken.py:needs is not a benchmark; it must be a function"),
        ("run meal/level-1 --method syntax.py:X", "brigade: syntax.py, line 1: invalid syntax"),
        ("run meal/level-1 --partners syntax.py:X", "brigade: syntax.py, line 1: invalid syntax"),
        ("run meal/level-1 --method broken.py", "method broken.py: add the class: broken.py:Name"),
        ("run meal/level-1 --method broken.py:needs", "broken.py:needs is not a method; it must"),
        ("run meal/level-1 --learner broken.py:Loose", "broken.py:Loose is not a learner; it must"),
        (
            "run meal/level-1 --ppo.sequence-length 7",
            "sequence_length is 7, but the network has no",
        ),
        ("report there --out broken.py", "broken.py is a file; --out must be a folder"),
        ("run meal/level-1 --method ./none.py:X", "there is no file none.py"),
        ("run meal/level-1 --config none.toml", "cannot read the config file none.toml"),
        ("run meal/level-1 --config broken.toml", "broken.toml is not valid"),
        ("run meal/level-1 --config typo.toml", "unknown setting 'ppo.epoch'"),
        ("run meal/level-1 --config type.toml", "brigade: --seeds: 'two' is not an integer"),
        ("run meal/level-1 --checkpoint-minutes x", "'x' is not a number"),
        ("run meal/level-1 --out there", "there exists already"),
        ("runn", "unknown verb 'runn': did you mean 'run'?"),
        ("list thing", "unknown kind 'thing'"),
        ("resume nowhere", "there is no run folder nowhere"),
        ("resume there", "there is not a run folder: it has no config.json"),
        ("resume broken", "broken/config.json is damaged"),
        ("resume newer", "format 2, this Brigade reads 1"),
        ("report nowhere", "nowhere"),
        ("watch nowhere", "there is no run folder nowhere"),
        ("plan meal/level-9", "unknown benchmark"),
        ("layouts --level 7", "unknown level '7': known: 1, 2, 3, extreme"),
        ("layouts --num 0", "0 is too small; it must be at least 1"),
        ("layouts --num x", "'x' is not an integer"),
        ("layouts --seed -1", "seed is -1"),
        ("layouts --sed 1", "unknown argument '--sed': did you mean '--seed'?"),
        ("layouts --agents 5", "a kitchen has 1 to 4 agents"),
        ("layouts --require-handoff --agents 1", "hand-offs and roles need at least 2"),
        ("layouts --require-handoff --file shared.txt", "shared.txt: soup can be served without a"),
        ("layouts --file ragged.txt", "ragged.txt: R1 rectangle: row 2 has 4 tiles"),
        ("layouts --file potless.txt", "potless.txt: R2 parts: there is no tile P"),
        ("layouts --file none.txt", "cannot read none.txt: No such file"),
        ("bench --level 7", "invalid choice: '7'"),
        (
            "run meal/level-1 --env.roles --env.num-agents 1",
            "brigade: roles need a chef and a waiter",
        ),
        ("run meal/level-1 --env.view 1 2", "--env.view"),
        ("run meal/level-1 --env.num-agents 5", "num_agents is 5; it must be from 1 to 4"),
        ("run meal/level-1 --env.sticky-actions 2", "sticky_actions is 2.0"),
        ("run meal/curriculum --tasks 1", "a curriculum needs at least 3, one per level"),
        ("run meal/curriculum --env.levels 2", "levels is 2; give two or more different levels"),
        ("run meal/curriculum --env.view level", "the levels of this sequence have different"),
        ("run meal/level-1 --repetitions 0", "repetitions is 0; it must be a number of at least 1"),
        ("run meal/level-1 --method ewc --method-settings.coefficient -1", "coefficient is -1.0"),
        ("run meal/level-1 --method l2 --method-settings.coefficient nan", "coefficient is nan"),
        (
            "run meal/level-1 --method packnet --repetitions 2",
            "PackNet trains every task once",
        ),
        (
            "run meal/level-1 --method packnet --network.no-multi-head",
            "PackNet would let later tasks change a head",
        ),
        ("run meal/level-1 --learner ppo", "ppo is for one seat and this environment has 2"),
        ("run meal/level-1 --learner mappo --network.encoder cnn", "a central critic needs"),
        ("run jaxnav/20 --env.fill 2", "fill is 2"),
        ("run jaxnav/20 --env.situations 0", "situations is 0"),
        ("run meal/level-1 --steps-per-task 1e30", "steps_per_task is 1e+30; that is more than"),
        ("run meal/level-1 --preset paper --steps-per-task 1e16", "steps_per_task is 1e+16"),
        ("watch there --out film.png", "--out is film.png; it must end in .gif"),
        ("run jaxnav/20 --network.encoder cnn", "encoder cnn needs observations [height"),
        (
            "run meal/level-1 --method ewc --method-settings.coefficient 1e60",
            "coefficient is 1e+60",
        ),
        ("reproduce meal/table-99", "unknown target 'meal/table-99': did you mean"),
        ("reproduce meal/table-12 --level 1", "meal/table-12 has no levels; remove --level"),
        ("run jaxnav/20 --env.fill 0.6 --env.num-agents 4 --tasks 2", "lower fill"),
        ("reproduce meal/table-7 --level 2", "meal/table-7 has no levels; remove --level"),
        ("reproduce meal/table-2 --sedes 3", "unknown setting 'sedes'"),
        ("reproduce meal/table-2 --jobs 0", "--jobs: 0 is too small; it must be at least 1"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(here, capsys, words, message):
    (here / "there").mkdir()
    (here / "there" / "notes.txt").touch()
    (here / "broken").mkdir()
    (here / "broken" / "config.json").write_text("{")
    (here / "newer").mkdir()
    (here / "newer" / "config.json").write_text('{"format": 2, "brigade": "9", "config": {}}')
    (here / "broken.py").write_text(BROKEN)
    (here / "syntax.py").write_text("def needs(:\n")
    (here / "broken.toml").write_text("seeds = [")
    (here / "typo.toml").write_text("[ppo]\nepoch = 2\n")
    (here / "type.toml").write_text('seeds = "two"\n')
    (here / "ragged.txt").write_text("XXPXX\nO1.2\nXDXSX\n")
    (here / "potless.txt").write_text("XXXXX\nO1.2X\nXDXSX\n")
    (here / "shared.txt").write_text("XXPXX\nO1.2X\nXDXSX\n")
    before = sorted(p.relative_to(here) for p in here.rglob("*"))
    assert main(words.split()) == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("brigade: ")
    assert message in shown.err
    assert shown.out == ""
    assert sorted(p.relative_to(here) for p in here.rglob("*")) == before


@pytest.mark.slow
def test_debug_shows_the_traceback(here):
    with pytest.raises(ValueError, match="unknown benchmark"):
        main(["run", "meal/level-9", "--debug"])
    (here / "syntax.py").write_text("def needs(:\n")
    with pytest.raises(ValueError, match="line 1: invalid syntax") as caught:
        main(["run", "meal/level-1", "--method", "syntax.py:X", "--debug"])
    assert isinstance(caught.value.__cause__, SyntaxError)


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "first"
    assert main(["run", *TINY, "--out", str(path), "--quiet"]) == 0
    return path


@pytest.mark.slow
def test_run_prints_progress_and_ends_with_a_report(here, capsys):
    assert main(["run", *TINY, "--out", "first", "--tensorboard"]) == 0
    shown = capsys.readouterr()
    assert "task 2/2  update 2/2" in shown.err
    assert "steps/s" in shown.err
    assert "left" in shown.err
    assert "average" in shown.out
    assert "report.html" in shown.out
    assert (here / "first" / "report" / "report.html").is_file()
    assert list((here / "first" / "tensorboard").iterdir())


@pytest.mark.slow
def test_quiet_says_nothing(first_run, here, capsys):
    assert main(["resume", str(first_run), "--quiet"]) == 0
    shown = capsys.readouterr()
    assert shown.out == shown.err == ""


def test_flags_win_over_the_file_and_the_file_over_the_preset(here):
    from brigade.runs.config import from_dict
    from brigade.runs.config_files import read_file

    (here / "my.toml").write_text(
        'benchmark = "meal/level-2"\nseeds = 4\ntasks = 7\n[ppo]\nepochs = 3\n'
    )
    experiment = from_dict(read_file("my.toml"), ["--tasks", "2", "--preset", "laptop"])
    assert experiment.config.benchmark == "meal/level-2"
    assert (experiment.config.seeds, experiment.config.tasks) == (4, 2)
    assert experiment.learner.ppo.epochs == 3
    assert experiment.config.num_envs == 16  # the preset's


@pytest.mark.slow
def test_a_method_from_a_file_runs_with_its_own_flags(here, capsys):
    (here / "mine.py").write_text(METHOD)
    words = ["run", *TINY, "--method", "./mine.py:Halver", "--method-settings.share", "0.25"]
    assert main([*words, "--out", "mine", "--quiet"]) == 0
    config = json.loads((here / "mine" / "config.json").read_text())["config"]
    assert config["method_settings"] == {"share": 0.25}
    assert main(["resume", "mine"]) == 2
    assert "add --trust" in capsys.readouterr().err
    assert main(["resume", "mine", "--trust", "--quiet"]) == 0


@pytest.mark.slow
def test_only_a_population_has_helpers(first_run, here, capsys):
    assert main(["export", str(first_run), "--helpers", "--out", "x.safetensors"]) == 2
    message = f"brigade: {first_run} is not a population and has no helpers; remove --helpers\n"
    assert capsys.readouterr().err == message
    assert not list(here.iterdir())


def test_layouts_draws_and_checks_kitchens_that_need_a_hand_off(here, capsys):
    assert main("layouts --require-handoff --num 2 --out drawn".split()) == 0
    assert capsys.readouterr().out.startswith("# level-1-handoff-seed-0-1\n")
    drawn = "drawn/level-1-handoff-seed-0-2.txt"
    assert main(["layouts", "--require-handoff", "--file", drawn]) == 0


def test_layouts_prints_text_json_and_pictures(here, capsys):
    assert main("layouts --level 2 --num 3 --seed 5 --out drawn".split()) == 0
    assert capsys.readouterr().out.count("# level-2-seed-5-") == 3
    assert len(list((here / "drawn").glob("*.png"))) == 3
    assert main("layouts --level 2 --num 3 --seed 5 --json".split()) == 0
    grids = json.loads(capsys.readouterr().out)
    assert len(grids) == 3
    assert all(len(row) == len(grid[0]) for grid in grids for row in grid)
    assert main(["layouts", "--file", "drawn/level-2-seed-5-1.txt"]) == 0
    assert "obeys all ten rules" in capsys.readouterr().out


def test_plan_tells_the_cost_and_starts_nothing(here, capsys):
    assert main(["plan", *TINY, "--no-measure"]) == 0
    shown = capsys.readouterr().out
    assert "6,400 over 2 seeds" in shown
    assert "4 (2 per task)" in shown
    assert "5 of 2 tasks" in shown
    assert list(here.iterdir()) == []


@pytest.mark.slow
def test_watch_films_a_task(first_run, here, capsys):
    assert main(["watch", str(first_run), "--task", "2", "--out", "film.gif"]) == 0
    assert "film.gif" in capsys.readouterr().out
    assert (here / "film.gif").stat().st_size > 1000


@pytest.mark.slow
def test_a_film_acts_and_steps_with_keys_of_their_own(first_run, monkeypatch):
    used = {"act": set(), "step": set()}

    def noting(name, function, place):
        def noted(*arguments):
            numbers = jax.random.key_data(arguments[place])
            jax.debug.callback(lambda key: used[name].add(tuple(key.tolist())), numbers)
            return function(*arguments)

        return noted

    monkeypatch.setattr(Players, "act", noting("act", Players.act, 4))
    monkeypatch.setattr(play, "step_all", noting("step", play.step_all, 1))
    run = load(first_run)
    watch.play(run, 0, 0, greedy=False)
    jax.effects_barrier()
    horizon = run.parts.benchmark.env.horizon
    assert len(used["act"]) == len(used["step"]) == horizon
    assert not used["act"] & used["step"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"), [("--task 3", "there is no task 3"), ("--seed 7", "has no seed 7")]
)
def test_watch_knows_what_the_run_has(first_run, here, capsys, words, message):
    assert main(["watch", str(first_run), *words.split()]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(capsys, verb):
    assert main([verb, "--help"]) == 0
    assert f"usage: brigade {verb}" in capsys.readouterr().out


@pytest.mark.slow
def test_help_of_run_names_every_setting(capsys):
    from brigade.learners import IPPO
    from brigade.methods.ft import FineTuning
    from brigade.runs.config import RunConfig
    from brigade.runs.flags import known_flags

    main(["run", "--help"])
    shown = capsys.readouterr().out
    for kind in (RunConfig, IPPO, FineTuning):
        for flag in known_flags(kind):
            assert flag == "benchmark" or f"--{flag}" in shown


@pytest.mark.slow
def test_bench_prints_steps_per_second(monkeypatch, capsys):
    monkeypatch.setattr(bench, "EVAL_EPISODES", 1)
    monkeypatch.setattr(bench, "speed_of", partial(bench.speed_of, repetitions=1))
    small = {"tasks": 2, "num_steps": 40, "num_minibatches": 2, "epochs": 1, "hidden": (8,)}
    setting = bench.TrainingSetting(**small, updates=1)
    monkeypatch.setattr(bench, "usual_setting", lambda level: setting)
    short = partial(bench.environment_speed, num_steps=20)
    monkeypatch.setattr(bench, "environment_speed", short)
    assert main(["bench", "--num-envs", "2"]) == 0
    shown = capsys.readouterr().out
    for part in ("environment alone", "collecting", "learning", "evaluating", "training"):
        assert part in shown


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(here):
    """A real process, interrupted once it has begun to learn."""
    words = [sys.executable, "-m", "brigade", "run", *TINY, "--out", "run", "--quiet"]
    words += ["--steps-per-task", "1e6"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    while not (here / "run" / "returns.npz").exists() and process.poll() is None:
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate()
    assert process.returncode == 130
    assert complaint == "brigade: stopped; continue with: brigade resume run\n"
    assert list((here / "run" / "checkpoints").iterdir())


def test_a_background_job_that_ignores_ctrl_c_can_be_terminated(monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_IGN)
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGTERM, None)


@pytest.mark.slow
def test_an_unwritable_folder_is_one_line(here, capsys):
    assert main(["run", *TINY, "--out", "/proc/no/run", "--quiet"]) == 2
    assert "cannot create /proc/no/run" in capsys.readouterr().err


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_says_how_to_go_on(here, capsys, monkeypatch):
    def full(self, arrays):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("brigade.runs.folder.RunFolder.write_returns", full)
    assert main(["run", *TINY, "--out", "run", "--quiet"]) == 1
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert (
        "No space left on device; once that is fixed, continue with: brigade resume run"
        in complaint
    )


NO_MEMORY = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 85.83GiB.\n[tf-xla] BFC"


NO_MEMORY_LATER = (
    "INTERNAL: Error dispatching computation: Error dispatching computation: "
    "Out of memory allocating 2548000000000 bytes."
)


def out_of_memory_after(updates, monkeypatch):
    """Let the device's memory suffice for so many updates."""
    step, done = Trainer.step, []

    def limited(*arguments):
        if len(done) == updates:
            raise jax.errors.JaxRuntimeError(NO_MEMORY)
        done.append(1)
        return step(*arguments)

    monkeypatch.setattr(Trainer, "step", limited)


@pytest.mark.slow
def test_a_device_without_memory_is_one_line_that_says_what_needs_less(here, capsys, monkeypatch):
    out_of_memory_after(0, monkeypatch)
    assert main(["run", *TINY, "--out", "run", "--quiet"]) == 1
    complaint = capsys.readouterr().err
    assert complaint == (
        "brigade: the device is out of memory (RESOURCE_EXHAUSTED: Out of memory while trying to "
        "allocate 85.83GiB); reduce --num-envs or --seeds, or increase --ppo.minibatches\n"
    )
    assert (here / "run" / "config.json").exists()


@pytest.mark.slow
def test_a_run_out_of_memory_says_how_to_go_on_from_its_checkpoint(here, capsys, monkeypatch):
    out_of_memory_after(2, monkeypatch)  # the first task is learned and saved
    assert main(["run", *TINY, "--out", "run", "--quiet"]) == 1
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "; or free memory and continue with: brigade resume run" in complaint
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert main(["resume", "run", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("verb", "error", "message"),
    [
        ("crossplay", NO_MEMORY, "allocate 85.83GiB); reduce --episodes\n"),
        ("bench", NO_MEMORY, "allocate 85.83GiB); reduce --num-envs\n"),
        ("plan", NO_MEMORY_LATER, "(Out of memory allocating 2548000000000 bytes); reduce --num-"),
    ],
)
def test_every_verb_says_what_it_could_do_with_less_memory(
    capsys, monkeypatch, verb, error, message
):
    def fail(words):
        raise jax.errors.JaxRuntimeError(error)

    monkeypatch.setitem(VERBS, verb, fail)
    assert main([verb]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_debug_shows_where_memory_ran_out(here, monkeypatch):
    out_of_memory_after(0, monkeypatch)
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        main(["run", *TINY, "--out", "run", "--quiet", "--debug"])


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["nonsense", "cuda"])
def test_a_machine_without_the_device_asked_for_is_one_line_and_status_1(here, platform):
    """A real process, since JAX looks for devices once."""
    if platform == "cuda" and jax.default_backend() != "cpu":
        pytest.skip("this machine has one")
    words = [sys.executable, "-m", "brigade", "run", *TINY, "--out", "run"]
    environment = os.environ | {"JAX_PLATFORMS": platform}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"brigade: JAX finds no device to use (JAX_PLATFORMS is {platform}")
    assert line.endswith("; set JAX_PLATFORMS=cpu to run on the CPU")
    assert "Traceback" not in done.stderr
    assert not (here / "run").exists()


@pytest.mark.parametrize("kind", [RuntimeError, AssertionError])
def test_a_defect_of_ours_is_not_blamed_on_the_machine(monkeypatch, kind):
    def fail(words):
        raise kind("a defect")

    monkeypatch.setitem(VERBS, "list", fail)
    with pytest.raises(kind, match="a defect"):
        main(["list"])


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["tensorboard", "wandb"])
def test_a_missing_sink_says_what_to_install(here, capsys, monkeypatch, sink):
    monkeypatch.setitem(sys.modules, {"tensorboard": "tensorboardX"}.get(sink, sink), None)
    assert main(["run", *TINY, "--out", "run", f"--{sink}"]) == 2
    assert f"pip install 'brigade-rl[{sink}]'" in capsys.readouterr().err
    assert not (here / "run").exists()
