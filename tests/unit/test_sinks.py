"""TensorBoard and Weights & Biases: everything of a run arrives, also when it is resumed."""

import json
import struct
import sys

import numpy as np
import pytest
from PIL import Image

from brigade.cli import main
from brigade.errors import UserError
from brigade.report import read_run
from brigade.report.summary import summary
from brigade.runs.sinks import FinalResults, Update, group_of, numbers_of
from brigade.runs.tensorboard import TensorBoard
from brigade.runs.weights_and_biases import (
    WandbSettings,
    WeightsAndBiases,
    read_where,
)
from brigade.train import Progress, Trainer

TINY = (
    "meal/level-1 --tasks 2 --seeds 2 --seed 3 --steps-per-task 1600 --num-envs 2 --eval-every 1 "
    "--eval-episodes 2 --network.hidden 8 --ppo.minibatches 4 --ppo.epochs 1"
).split()
STEPS = [0, 800, 1600, 2400, 3200]


class FakeWandb:
    """Stands in for the package and its service, and writes down what it is told."""

    Error = ConnectionError

    def __init__(self):
        self.opened, self.logged, self.summary, self.finished = [], [], {}, 0
        self.key = True

    def login(self, prompt, verify):
        assert not prompt
        assert not verify
        return self.key

    def Settings(self, **settings):
        return settings

    def Table(self, columns, data):
        return columns, data

    def Video(self, path, format):
        return path, format

    def init(self, **settings):
        self.opened.append(settings)
        return self

    def log(self, numbers, step):
        self.logged.append((step, numbers))

    def finish(self):
        self.finished += 1


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """A run with both sinks, stopped in its second task and resumed."""
    path = tmp_path_factory.mktemp("sinks") / "run"
    fake, updates = FakeWandb(), Trainer.run

    def stopped(self, *arguments, **settings):
        for progress, position in updates(self, *arguments, **settings):
            yield progress, position
            if progress.steps == 2400:
                raise KeyboardInterrupt

    sinks = ["--quiet", "--tensorboard", "--wandb", "--wandb-mode", "online"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "wandb", fake)
        patch.setattr(Trainer, "run", stopped)
        where = ["--wandb-project", "kitchens", "--wandb-entity", "team"]
        assert main(["run", *TINY, "--out", str(path), *sinks, *where]) == 130
        patch.setattr(Trainer, "run", updates)
        assert main(["resume", str(path), *sinks]) == 0
    return path, fake


@pytest.mark.slow
def test_weights_and_biases_gets_config_group_and_the_curves_of_every_seed(logged):
    path, fake = logged
    first = fake.opened[0]
    assert (first["project"], first["entity"], first["name"]) == ("kitchens", "team", "run")
    assert first["group"] == "meal/level-1/ft"
    assert first["tags"] == ["meal/level-1", "ippo", "ft"]
    assert first["config"]["ppo"]["epochs"] == 1
    assert first["dir"] == str(path)
    assert [step for step, _ in fake.logged[:-1]] == STEPS
    run = read_run(path)
    for index, (_, numbers) in enumerate(fake.logged[:-1]):
        for task in (0, 1):
            assert numbers[f"score/task {task + 1}"] == pytest.approx(run.score[index, task].mean())
            for seed in (0, 1):
                name = f"seed {seed + 3}/score/task {task + 1}"
                assert numbers[name] == pytest.approx(run.score[index, task, seed])
    loss = np.array(
        [[n[f"seed {seed}/train/loss"] for seed in (3, 4)] for _, n in fake.logged[1:-1]]
    )
    np.testing.assert_allclose(loss, run.logged("loss")[1], rtol=1e-6)


@pytest.mark.slow
def test_a_resumed_run_continues_the_same_run_there(logged):
    path, fake = logged
    first, second = fake.opened
    assert first["id"] == second["id"] == json.loads((path / "wandb.json").read_text())["id"]
    assert (second["project"], second["entity"]) == ("kitchens", "team")
    assert second["resume"] == "allow"
    assert fake.finished == 2


@pytest.mark.slow
def test_final_tables_and_the_film_arrive(logged):
    path, fake = logged
    step, things = fake.logged[-1]
    assert step == 3200
    headings, rows = things["tables/tasks"]
    assert headings[:2] == ["number", "task"]
    assert len(rows) == 3
    film, kind = things["film"]
    assert kind == "gif"
    with Image.open(film) as picture:
        assert picture.n_frames > 10
    numbers = summary(read_run(path)).values
    assert fake.summary["final/average_score"] == numbers["average_score"].mean


def events_of(folder):
    """All events of a folder's files; a record is a length, its check sum, the event, its own."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(folder.glob("events.*")):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event = Event()
            event.ParseFromString(data[12 : 12 + length])
            found.append(event)
            data = data[16 + length :]
    return found


def curves_of(folder):
    """Steps and values by tag, as TensorBoard shows them: a restart drops what came before it."""
    curves = {}
    for event in events_of(folder):
        if event.HasField("session_log"):
            for tag, points in curves.items():
                curves[tag] = {step: v for step, v in points.items() if step < event.step}
        for value in event.summary.value:
            curves.setdefault(value.tag, {})[event.step] = value
    return curves


@pytest.mark.slow
def test_tensorboard_reads_back_config_curves_tables_and_the_film(logged):
    path, _ = logged
    folder = path / "tensorboard"
    run = read_run(path)
    mean = curves_of(folder)
    assert list(mean["score/task_2"]) == STEPS
    shown = [value.simple_value for value in mean["score/task_2"].values()]
    np.testing.assert_allclose(shown, run.score[:, 1].mean(axis=1), rtol=1e-6)
    for index, seed in enumerate((3, 4)):
        curves = curves_of(folder / f"seed-{seed}")
        assert list(curves["train/loss"]) == STEPS[1:]
        shown = [value.simple_value for value in curves["train/loss"].values()]
        np.testing.assert_allclose(shown, run.logged("loss")[1][:, index], rtol=1e-6)
    text = {tag: list(points.values())[-1] for tag, points in mean.items()}
    config = text["config/text_summary"].tensor.string_val[0].decode()
    assert json.loads(config.removeprefix("```json").removesuffix("```"))["seeds"] == 2
    assert text["group/text_summary"].tensor.string_val[0] == b"meal/level-1/ft"
    table = text["tables/tasks/text_summary"].tensor.string_val[0].decode()
    assert table.count("\n") == 4
    assert text["film"].image.encoded_image_string.startswith(b"GIF89a")
    final = summary(run).values["average_score"].mean
    assert text["final/average_score"].simple_value == pytest.approx(final)


@pytest.mark.slow
def test_unknown_numbers_are_left_out_of_the_curves():
    metrics = {"score": np.array([np.nan, 1.0]), "loss": np.array([2.0, 4.0])}
    update = numbers_of(Progress(0, 1, 80, metrics, evaluated=False), None, 7)
    assert update == Update(
        80,
        {7: {"train/loss": 2.0}, 8: {"train/score": 1.0, "train/loss": 4.0}},
        {"train/loss": 3.0},
    )
    assert group_of({"benchmark": "b", "method": "ft", "generator": "sp"}) == "b/sp"


def test_what_was_written_after_the_last_checkpoint_is_replaced(tmp_path):
    config = {"benchmark": "b", "method": "ft"}
    for start, value in ((0, 1.0), (80, 2.0)):  # killed, and resumed from step 80
        sink = TensorBoard(tmp_path)
        sink.open(config)
        for steps in range(start, 240, 80):
            sink.write(Update(steps, {0: {"x": value}}, {"x": value}))
        sink.close()
    for folder in (tmp_path / "tensorboard", tmp_path / "tensorboard" / "seed-0"):
        points = curves_of(folder)["x"]
        assert {step: value.simple_value for step, value in points.items()} == {0: 1, 80: 2, 160: 2}


@pytest.mark.slow
def test_a_finished_run_can_be_given_its_results_later(logged, monkeypatch):
    path, _ = logged
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    assert main(["resume", str(path), "--quiet", "--wandb"]) == 0
    assert [step for step, _ in fake.logged] == [3200]
    assert fake.finished == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--wandb-project p", "--wandb-project is for Weights & Biases; add --wandb, or remove it"),
        ("--wandb --wandb-mode off", "invalid choice: 'off'"),
        ("--wandb", "Weights & Biases has no API key here; run 'wandb login', or add --wandb-mode"),
    ],
)
def test_mistakes_are_found_before_the_run_starts(tmp_path, monkeypatch, capsys, words, message):
    fake = FakeWandb()
    fake.key = False
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    for verb in (["run", *TINY], ["sweep", *TINY[:3], "--over", "seed", "1", "2"]):
        if verb[0] == "sweep" and words == "--wandb":
            continue  # its runs have the key, or report that they have none
        assert main([*verb, "--out", str(tmp_path / "out"), *words.split()]) == 2
        assert message in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []


def test_a_run_stays_where_it_is_logged(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", FakeWandb())
    record = {"id": "0a", "project": "p", "entity": "", "group": "g"}
    (tmp_path / "wandb.json").write_text(json.dumps(record))
    WeightsAndBiases(tmp_path, WandbSettings(project="p"))
    with pytest.raises(UserError, match="is logged to project p; remove --wandb-project"):
        WeightsAndBiases(tmp_path, WandbSettings(project="q"))
    for damaged in ("{", "[]", "{}", json.dumps(record | {"id": "../x"})):
        (tmp_path / "wandb.json").write_text(damaged)
        with pytest.raises(UserError, match="is damaged"):
            read_where(tmp_path / "wandb.json")


def test_the_real_package_takes_it_offline(tmp_path):
    gif = tmp_path / "film.gif"
    Image.new("P", (4, 4)).save(gif)
    for _ in range(2):  # and again, as resumed
        sink = WeightsAndBiases(tmp_path, WandbSettings(mode="offline"), quiet=True)
        sink.open({"benchmark": "b", "method": "m", "learner": "l"})
        sink.write(Update(80, {0: {"x": 1.0}}, {"x": 1.0}))
        sink.finish(FinalResults(80, {"t": (["a"], [["1"]])}, {"average_score": 0.5}, gif))
        sink.close()
    names = [path.name for path in (tmp_path / "wandb").glob("offline-run-*")]
    assert len(names) == 2
    assert all(read_where(tmp_path / "wandb.json").id in name for name in names)
