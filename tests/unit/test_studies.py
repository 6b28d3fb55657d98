"""ZSC-Eval's study: candidates, selection, egos, measurement; done once, continued, audited."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from brigade import registry
from brigade.benchmarks.published import published
from brigade.benchmarks.zsc_eval import KITCHENS, kitchen, kitchens_like, num_partners, table_of
from brigade.benchmarks.zsc_scales import MEDIUM, PAPER, SCALES, SMALL
from brigade.benchmarks.zsc_stream import READY_MADE, ready_made
from brigade.cli import main
from brigade.cli.evaluate import evaluate
from brigade.envs.overcooked import EVENTS, LAYOUTS, MULTI_EVENTS
from brigade.envs.overcooked.grid import validate
from brigade.errors import UserError
from brigade.launch import Processes
from brigade.launch import zsc_study as zsc_eval
from brigade.launch.audit import known_twins, refuse_leakage, refuse_trained_with
from brigade.launch.reproduce import reproduce
from brigade.launch.stage import Computation
from brigade.launch.target import Request
from brigade.launch.targets import find_target
from brigade.launch.zsc_study import Study, best_of, rotated
from brigade.partners.files import load_policies
from brigade.report.zsc_candidates import read_behaviour
from brigade.report.zsc_results import results_of
from brigade.runs.export import trained_with
from brigade.runs.folder import read_npz
from brigade.runs.snapshots import stage_index

TINY = replace(
    SMALL,
    candidates=3,
    partners=1,
    members=3,
    met=2,
    biased=1,
    envs=4,
    candidate_steps=80,
    population_steps=80,
    ego_steps=80,
    alone_steps=80,
    feature_episodes=2,
    episodes=2,
    seeds=2,
    evaluations=2,
    horizon=10,
    min_return=-1.0,  # nobody delivers within ten steps
)
WORDS = ("--ppo.epochs", "1", "--ppo.minibatches", "2", "--network.hidden", "8")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "ring"
    made = Study("coordination_ring", folder, TINY, ("sp", "fcp"), words=WORDS)
    measure(made)
    return made


def measure(study, algorithms=("sp", "fcp"), workers=None, until=None):
    """Do what is left of a study, as the command does; returns its report."""
    target, flags = find_target("zsc_eval/coordination_ring"), {"algorithms": algorithms}
    request = Request(study.folder, "small", WORDS, flags)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SCALES, "small", study.scale)
        return reproduce(target, request, workers, quiet=True, until=until)


def test_a_study_makes_chooses_trains_and_measures(study):
    selection = study.read_selection()
    assert len(selection["chosen"]) == 1
    assert sorted(selection["kept"]) == ["biased-1", "biased-2", "biased-3"]
    name = selection["chosen"][0]
    assert selection["partners"] == [name, f"{name}-mid"]
    partners = load_policies(study.folder / "selection" / "partners.safetensors")
    assert list(partners.names) == selection["partners"]
    assert [member["stage"] for member in partners.members] == ["final", "mid"]
    assert partners.members[0]["prefers"]
    pool = load_policies(study.folder / "selection" / "pool.safetensors")
    assert not set(pool.names) & set(selection["chosen"])
    population = load_policies(study.folder / "populations" / "fcp" / "population.safetensors")
    endings = [name.rpartition("-")[2] for name in population.names]
    assert endings == ["init", "mid", "1", "init", "mid", "2", "init", "mid", "3"]
    played = read_npz(study.folder / "measurement" / "played.npz")
    assert played["sp"].shape == played["fcp"].shape == (2, 2, 2, 2)
    results = results_of(played, "coordination_ring")
    assert [result.published for result in results] == [0.27, 0.63]


def test_a_study_that_is_done_is_not_done_again(study, monkeypatch):
    def never(*_):
        raise AssertionError("this was done before")

    monkeypatch.setattr(zsc_eval, "play_with", never)
    monkeypatch.setattr(zsc_eval, "load", never)  # nothing is exported again
    before = {path: path.stat().st_mtime_ns for path in study.folder.rglob("*.npz")}
    measure(study)
    assert {path: path.stat().st_mtime_ns for path in study.folder.rglob("*.npz")} == before


def test_another_number_of_partners_is_another_selection(study):
    other = replace(study, scale=replace(TINY, partners=2))
    assert study.selection_stage().is_done()
    assert not other.selection_stage().is_done()


def test_more_partners_than_survived_are_refused(study, tmp_path):
    wanted = replace(study, scale=replace(TINY, partners=4))
    with pytest.raises(UserError, match="k must be at most 3, as only 3 of the 3 candidates"):
        wanted.select(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_other_settings_are_refused_in_the_same_folder(study):
    with pytest.raises(UserError, match="was run with other settings"):
        measure(replace(study, scale=replace(TINY, candidate_steps=160)))


def test_evaluation_partners_may_not_be_trained_with(study, tmp_path):
    benchmark, task = study.game()
    partners = study.folder / "selection" / "partners.safetensors"
    everyone = study.folder / "candidates" / "population.safetensors"
    with pytest.raises(UserError, match="is the file of evaluation partners"):
        refuse_leakage(benchmark.env, task, partners, [partners])
    with pytest.raises(UserError, match=r"is in the training population .* as biased-"):
        refuse_leakage(benchmark.env, task, partners, [everyone])
    # Under another name and from another run, the actions give it away.
    found = load_policies(everyone)
    renamed = [{"name": f"x{n}", "run": "elsewhere"} for n in range(len(found.members))]
    twin = tmp_path / "twin.safetensors"
    twin.write_bytes(replace(found, members=renamed).as_bytes())
    assert not known_twins(load_policies(partners), load_policies(twin))
    with pytest.raises(UserError, match="acts like x"):
        refuse_leakage(benchmark.env, task, partners, [twin])
    fcp = study.folder / "populations" / "fcp" / "population.safetensors"
    refuse_leakage(benchmark.env, task, partners, [fcp])


def test_a_policy_that_was_trained_with_an_evaluation_partner_is_refused(study, tmp_path):
    """As its file tells: its partners in training, and the pair of a best response."""
    partners = study.folder / "selection" / "partners.safetensors"
    responses = study.folder / "selection" / "responses.safetensors"
    with pytest.raises(UserError, match="was trained with biased-"):
        refuse_trained_with(partners, responses)
    ego = load_policies(study.folder / "egos" / "fcp" / "population.safetensors")
    assert len(ego.origin["trained_with"]) == 9
    met = tmp_path / "met.safetensors"
    origin = {**ego.origin, "trained_with": trained_with([str(partners)])}
    met.write_bytes(replace(ego, origin=origin).as_bytes())
    with pytest.raises(UserError, match="was trained with biased-"):
        evaluate("zsc_eval/coordination_ring", str(met), study.folder, episodes=1)


def test_runs_of_a_study_start_from_different_networks(study):
    runs = [study.candidates_run(), study.population_run("fcp")]
    runs += [study.ego_run(name) for name in ("sp", "fcp")]
    firsts = [run.experiment.config.seed for run in runs]
    assert len(set(firsts)) == len(firsts)


def test_egos_meet_partners_as_in_the_release(study):
    """Each seed meets other whole agents; MEP's second stage ranks with exponent 0.5."""
    fcp = study.ego_run("fcp").experiment
    assert list(fcp.config.partners_of_seed) == [
        "fcp-1-init,fcp-1-mid,fcp-1,fcp-2-init,fcp-2-mid,fcp-2",
        "fcp-2-init,fcp-2-mid,fcp-2,fcp-3-init,fcp-3-mid,fcp-3",
    ]
    mep = study.folder / "populations" / "mep"
    mep.mkdir(exist_ok=True)
    found = study.folder / "populations" / "fcp" / "population.safetensors"
    (mep / "population.safetensors").write_bytes(found.read_bytes())
    ranked = study.ego_run("mep").experiment
    assert (ranked.config.partner_sampling, ranked.config.rank_exponent) == ("ranked", 0.5)
    paper = replace(study, scale=replace(TINY, fades=True))
    assert paper.ego_run("mep").experiment.learner.ppo.shaping_steps == TINY.ego_steps
    assert paper.candidates_run().experiment.learner.ppo.shaping_steps == TINY.candidate_steps


def test_half_of_hsp_partners_are_biased_and_half_whole_agents_of_mep(study):
    mep = study.folder / "populations" / "mep"
    mep.mkdir(exist_ok=True)
    found = study.folder / "populations" / "fcp" / "population.safetensors"
    (mep / "population.safetensors").write_bytes(found.read_bytes())
    pool = ",".join(load_policies(study.folder / "selection" / "pool.safetensors").names)
    half = study.ego_run("hsp").experiment
    assert list(half.config.partners_of_seed) == [
        f"fcp-1-init,fcp-1-mid,fcp-1,{pool}",
        f"fcp-2-init,fcp-2-mid,fcp-2,{pool}",
    ]


def test_populations_of_the_scales_are_those_of_the_release():
    """Five agents, four of them for each ego; HSP's biased half counts like two agents."""
    for scale in (MEDIUM, PAPER):
        assert (scale.members, scale.met, scale.biased) == (5, 4, 6)
    agents = [[f"a{n}"] for n in range(10)]
    met = [rotated(agents, 8, seed) for seed in range(5)]
    assert met[1] == ["a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"]  # every seed two further
    assert met[4] == ["a8", "a9", "a0", "a1", "a2", "a3", "a4", "a5"]


@pytest.mark.parametrize("name", ["fcp", "mep", "trajedi", "brdiv", "lbrdiv", "comedi"])
def test_populations_for_coplay_have_three_skills(name):
    generator = registry.get("generators", name)
    assert generator.stages == ("init", "mid", "final")
    assert generator.defaults["snapshots"] == 10


def test_every_cook_gets_its_own_shaped_rewards():
    for layout in ("coordination_ring", "forced_coordination_multi"):
        for preset in ("paper", "laptop"):
            assert kitchen(layout).presets[preset]["ppo"]["share_shaping"] is False


@pytest.mark.parametrize(
    ("returns", "stage", "place"),
    [
        ([0, 0, 0, 80], "mid", 1),  # all as far from 40: not the untrained one
        ([0, 10, 45, 80], "mid", 2),
        ([0, 80], "mid", 0),  # there is no other
        ([0, 10, 45, 80], "init", 0),
        ([0, 10, 45, 80], "final", 3),
    ],
)
def test_half_skill_is_nearest_to_half_of_the_final_return(returns, stage, place):
    assert stage_index([({"return": value}, None) for value in returns], stage) == place


def test_features_are_those_of_the_best_response_on_each_seat():
    """Events count 100 x table + 10 x player + kind / 100, so that numbers say whose they are."""
    events = (
        100 * np.arange(4)[:, None, None]
        + 10 * np.arange(2)[:, None]
        + np.arange(len(EVENTS)) / 100
    )
    returns = np.array([[20.0, 40.0], [60.0, 60.0], [0.0, 0.0], [0.0, 20.0]])
    arrays = {
        "events": events[None, None, :, None, None],
        "returns": returns[None, None, :, None, None],
        "event_names": np.array(EVENTS),
    }
    behaviour = read_behaviour(arrays)
    assert behaviour.returns.tolist() == [45.0, 5.0]
    assert behaviour.features.shape == (2, 28)
    np.testing.assert_allclose(behaviour.features[0, :13], np.arange(13) / 100)
    assert behaviour.features[0, 13] == 30.0
    np.testing.assert_allclose(behaviour.features[0, 14:27], 110 + np.arange(13) / 100)
    assert behaviour.features[0, 27] == 60.0
    np.testing.assert_allclose(behaviour.features[1, 14:27], 310 + np.arange(13) / 100)
    np.testing.assert_allclose(behaviour.partner_features[0, :13], 10 + np.arange(13) / 100)
    np.testing.assert_allclose(behaviour.partner_features[0, 14:27], 100 + np.arange(13) / 100)
    multi = {**arrays, "events": np.zeros((1, 1, 4, 1, 1, 2, 29)), "event_names": MULTI_EVENTS}
    multi["event_names"] = np.array(MULTI_EVENTS)
    assert read_behaviour(multi).features.shape == (2, 58)


def test_the_best_response_is_chosen_and_measured_on_different_games():
    """Response 0 looks best on the first games; what counts is what it does on the others."""
    returns = np.zeros((2, 1, 2, 4))
    returns[0, 0, 0] = [90, 90, 10, 30]
    returns[1, 0, 0] = [50, 50, 70, 70]
    returns[1, 0, 1] = [10, 10, 40, 60]
    assert best_of(returns).tolist() == [[20.0, 50.0]]


def test_results_compare_expert_and_moderate_partners():
    best = np.array([[100.0, 100.0], [50.0, 50.0]])
    weak = np.array([[[[50.0], [50.0]], [[50.0], [50.0]]]])  # [seed, partner, seat, episode]
    strong = 2 * weak
    played = {"sp": weak, "e3t": strong, "best_responses": best, "partners": np.array(["a", "b"])}
    sp, e3t = results_of(played, "coordination_ring")
    assert (sp.expert, sp.moderate, sp.rank) == (0.5, 1.0, 2.0)
    assert (e3t.expert, e3t.moderate, e3t.rank) == (1.0, 2.0, 1.0)
    assert results_of(played, "coordination_ring", as_released=True)[1].moderate == 1.0


def test_a_stage_is_done_again_when_a_file_changes(tmp_path):
    source, done = tmp_path / "in.txt", []
    source.write_text("a")

    def stage(number=1):
        return Computation("s", tmp_path / "out", {"n": number}, [source], lambda f: done.append(f))

    assert stage().ensure()
    assert not stage().ensure()
    source.write_text("b")
    assert stage().ensure()
    assert stage(2).ensure()
    assert len(done) == 3

    def broken(folder):
        raise KeyboardInterrupt

    interrupted = replace(stage(3), work=broken)
    with pytest.raises(KeyboardInterrupt):
        interrupted.ensure()
    assert not interrupted.is_done()


def test_the_ten_kitchens_have_their_recipes_tables_and_numbers():
    assert len(KITCHENS) == 10
    for layout in KITCHENS:
        benchmark = kitchen(layout)
        multi = layout.endswith("_multi")
        assert benchmark.env.recipes == ("multi" if multi else "single")
        assert benchmark.env.action_masks
        many = multi or layout in ("asymmetric_advantages", "asymmetric_coordination")
        assert num_partners(layout) == (15 if many else 10)
        members = benchmark.generators["hsp"]["generator_settings"]["members"]
        assert members == {"multi": 72, "default": 52}.get(table_of(layout), members)
    assert set(published("zsc_eval/br-prox")) < set(KITCHENS)
    assert PAPER.partners is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "zsc_eval/coordination_rong"], "did you mean 'coordination_ring'"),
        (["reproduce", "zsc_eval/coordination_ring", "--algorithms", "fpc"], "did you mean 'fcp'"),
        (["reproduce", "zsc_eval/coordination_ring", "--seeds", "0"], "at least 1"),
        (["run", "zsc_eval/coordination_ring_multi", "--env.recipes", "OOP"], "write 1 to 3"),
        (["evaluate", "zsc_eval/cramped_room", "--policy", "x"], "unknown benchmark"),
        (["evaluate", "zsc_eval/blocked_corridor", "--policy", "static"], "brigade reproduce"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_written(
    words, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_policy_is_measured_with_the_partners_of_a_study(study, tmp_path):
    ego = study.folder / "egos" / "sp" / "population.safetensors"
    found = evaluate("zsc_eval/coordination_ring", str(ego), study.folder, episodes=1)
    assert found.returns.shape == (2, 2, 2, 1)
    assert found.policies == ("sp-seed1000", "sp-seed1001")
    partners = study.folder / "selection" / "partners.safetensors"
    with pytest.raises(UserError, match="is the file of evaluation partners"):
        evaluate("zsc_eval/coordination_ring", str(partners), study.folder, episodes=1)
    with pytest.raises(UserError, match="is of coordination_ring, not of counter_circuit"):
        evaluate("zsc_eval/counter_circuit", str(ego), study.folder, episodes=1)
    with pytest.raises(UserError, match="has no finished selection"):
        evaluate("zsc_eval/coordination_ring", str(ego), tmp_path, episodes=1)


def test_an_ego_of_many_kitchens_fits_the_layout():
    """CEC: every episode has one of the generated kitchens, with observations of the same shape."""
    import jax

    benchmark = kitchen("coordination_ring", zsc_eval_settings(kitchens=5))
    env, task = benchmark.env, benchmark.sequence(0, 1, 1)[0]
    assert env.obs_shape == kitchen("coordination_ring").env.obs_shape
    assert task.tile.shape[0] == 5
    states, _ = jax.vmap(env.reset, in_axes=(0, None))(
        jax.random.split(jax.random.key(0), 64), task
    )
    assert set(np.asarray(states.kitchen).tolist()) == set(range(5))
    one = jax.tree.map(lambda x: x[0], states)
    after, now = env.step(jax.random.key(0), one, jax.numpy.array([4, 4]), task)
    assert int(after.kitchen) == int(one.kitchen)
    tile = np.asarray(task.tile)[int(one.kitchen)]
    np.testing.assert_array_equal(np.asarray(now.view.obs)[0, :, :, -16], tile == 2)  # pots


def test_kitchens_of_cec_are_like_those_it_is_measured_in():
    """Of the same size, with stations in the wall and inside, and never the layout itself."""
    for layout in ("coordination_ring", "counter_circuit", "forced_coordination_multi"):
        grid, multi = LAYOUTS[layout], layout.endswith("_multi")
        kitchens = kitchens_like(grid, multi, 200, seed=3)
        assert len(set(kitchens)) == 200
        assert grid not in kitchens
        stations = {(row, column): 0 for row in range(len(grid)) for column in range(len(grid[0]))}
        for each in kitchens:
            validate(each, 2)
            assert (len(each), len(each[0])) == (len(grid), len(grid[0]))
            for row, column in stations:
                stations[row, column] += each[row][column] in "PODST"
        last = (len(grid) - 1, len(grid[0]) - 1)
        corners = {(0, 0), (0, last[1]), (last[0], 0), last}
        assert all((stations[cell] == 0) == (cell in corners) for cell in stations)
        wall = sum(n for (r, c), n in stations.items() if r in (0, last[0]) or c in (0, last[1]))
        assert wall > 0.6 * sum(stations.values())  # as in the layouts, most stand in the wall


def zsc_eval_settings(**settings):
    return type(kitchen("coordination_ring").settings)(**settings)


def test_tables_are_written_beside_the_report(study, capsys):
    report = measure(study)
    assert report == study.folder / "report" / "report.html"
    assert report.exists()
    rows = json.loads((study.folder / "table.json").read_text())
    assert [row["algorithm"] for row in rows] == ["sp", "fcp"]
    assert "Best-response proximity in coordination_ring" in capsys.readouterr().out


@pytest.mark.slow
def test_runs_of_a_study_in_processes_are_the_same(study, tmp_path):
    """The egos of both algorithms are trained beside each other."""
    other = replace(study, folder=tmp_path / "other", algorithms=("sp", "e3t", "fcp"))
    measure(other, other.algorithms, Processes(2), until="egos")
    for run in ("candidates", "populations/fcp", "egos/sp", "egos/fcp"):
        files = [each.folder / run / "population.safetensors" for each in (study, other)]
        ours, theirs = map(load_policies, files)
        assert ours.names == theirs.names
        for one, two in zip(*map(jax.tree.leaves, (ours.params, theirs.params)), strict=True):
            np.testing.assert_array_equal(one, two)
        assert len({file.stat().st_size for file in files}) == 1  # all in half precision
    assert (other.folder / "egos" / "e3t" / "population.safetensors").exists()
    assert not (other.folder / "measurement").exists()


@pytest.mark.parametrize("layout", ["coordination_ring", "counter_circuit"])
def test_the_recorded_studies_come_out_of_their_games_again(layout):
    """And for the ring, the column "before" out of its earlier games."""
    results = Path(__file__).parents[2] / "docs" / "results"
    page = (results / "zsc_eval.md").read_text(encoding="utf-8")
    folder = results / f"zsc-eval-{layout.replace('_', '-')}"
    found = results_of(read_npz(folder / "played.npz"), layout)
    earlier = folder / "before.npz"
    before = results_of(read_npz(earlier), layout) if earlier.exists() else []
    assert len(found) == 11
    assert len(before) in (0, 11)
    for number, each in enumerate(found):
        low, high = each.table.interval
        cells = [
            each.title,
            f"{each.table.value:.2f}",
            f"{low:.2f} to {high:.2f}",
            f"{each.expert:.2f}",
            f"{each.moderate:.2f}",
            "-" if each.published is None else f"{each.published:.2f}",
        ]
        if before:
            assert before[number].title == each.title
            cells.append(f"{before[number].table.value:.2f}")
        assert f"| {' | '.join(cells)} |" in page


def test_the_recorded_best_responses_are_those_of_the_ready_made_partners():
    page = Path(__file__).parents[2] / "docs" / "results" / "zsc_eval.md"
    text = page.read_text(encoding="utf-8")
    for layout in ready_made():
        tree = json.loads((READY_MADE / f"{layout}.json").read_text(encoding="utf-8"))
        best = dict(zip(tree["partners"], tree["best_responses"], strict=True))
        assert tuple(best) == load_policies(READY_MADE / f"{layout}.safetensors").names
        for name in tree["chosen"]:
            final, mid = (
                ", ".join(f"{value:.0f}" for value in best[each]) for each in (name, f"{name}-mid")
            )
            assert re.search(rf"\| `{name}` \| .* \| {final} \| {mid} \|", text)
