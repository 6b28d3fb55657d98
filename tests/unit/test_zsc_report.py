"""The report of a ZSC-Eval study: its numbers, its marks, and names that cannot misuse the page."""

import csv
import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from brigade.metrics.zsc_eval import DiversityBySize
from brigade.report import zsc_plots
from brigade.report.zsc_candidates import Behaviour, as_arrays
from brigade.report.zsc_eval import write_study_report
from brigade.report.zsc_results import results_of
from brigade.runs.folder import npz_bytes

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>$x_1$"
LAYOUT = "coordination_ring"
NAMES = tuple(f"biased-{number}" for number in range(1, 7))
CHOSEN = ("biased-2", "biased-5")
PARTNERS = [f"{name}{stage}" for name in CHOSEN for stage in ("", "-mid")]
BEST = np.array([[200.0, 180.0], [100.0, 120.0], [60.0, 80.0], [40.0, 40.0]])  # [partner, seat]


def make_study(folder, algorithms=("sp", "fcp"), seeds=2, steps=5e5, names=NAMES):
    """Six candidates, of which the last does not deliver, and two chosen ones at two skills."""
    rng = np.random.default_rng(0)
    returns = np.array([150.0, 190.0, 90.0, 60.0, 70.0, 4.0])
    features = rng.poisson(5.0, (2, 6, 6)).astype(float)
    behaviour = Behaviour(names, returns, *features, ("onion", "plate", "soup"))
    played = {
        name: rng.uniform(0.2, 1.1, (seeds, 4, 2, 3)) * BEST[None, :, :, None]
        for name in algorithms
    }
    played |= {"best_responses": BEST, "partners": np.array(PARTNERS)}
    selection = {
        "layout": LAYOUT,
        "chosen": [names[1], names[4]],
        "kept": list(names[:5]),
        "dropped": [names[5]],
        "determinant": 3.5,
        "partners": PARTNERS,
        "best_responses": BEST.tolist(),
        "episodes": 3,
    }
    for part in ("selection", "measurement"):
        (folder / part).mkdir(parents=True)
    (folder / "selection" / "selection.json").write_text(json.dumps(selection))
    (folder / "selection" / "behaviour.npz").write_bytes(npz_bytes(as_arrays(behaviour)))
    (folder / "measurement" / "played.npz").write_bytes(npz_bytes(played))
    make_config(folder / "candidates", steps, 6, 1)
    for name in algorithms:
        make_config(folder / "egos" / name.replace("/", "_"), steps, 1, seeds)
    return played


def make_config(folder, steps, members, seeds):
    folder.mkdir(parents=True)
    config = {"steps_per_task": steps * members, "num_envs": 16 * members, "seeds": seeds}
    config["generator_settings"] = {"members": members} if members > 1 else {}
    (folder / "config.json").write_text(json.dumps({"format": 1, "config": config}))


def page_of(folder, played, layout=LAYOUT, **settings):
    path = write_study_report(folder, layout, results_of(played, layout, **settings))
    assert path == folder / "report" / "report.html"
    return path.read_text()


class Elements(HTMLParser):
    """The elements of a page, and its text outside of the style sheet."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        if self.tags[-1:] != ["style"] and data.strip():
            self.texts.append(data.strip())


def test_the_table_has_the_numbers_of_the_results(tmp_path):
    played = make_study(tmp_path)
    page_of(tmp_path, played)
    with (tmp_path / "report" / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row, result in zip(rows, results_of(played, LAYOUT), strict=True):
        assert row.pop("algorithm") == result.name
        low, high = result.table.interval
        seat_0, seat_1 = result.table.per_seat
        assert {name: float(value) for name, value in row.items()} == {
            "seeds": 2,
            "br_prox": result.table.value,
            "low": low,
            "high": high,
            "rank": result.rank,
            "expert": result.expert,
            "moderate": result.moderate,
            "seat_0": seat_0,
            "seat_1": seat_1,
            "mean_return": result.mean_return,
            "published": result.published,
        }


def test_the_page_has_all_algorithms_counts_and_plots(tmp_path):
    played = make_study(tmp_path)
    html = page_of(tmp_path, played)
    texts = Elements(html).texts
    for result in results_of(played, LAYOUT):
        assert texts.count(result.title) >= 5  # the table, three plots and the heat map
        assert f"{result.table.value:.2f}" in texts
        assert f"{result.published:.2f}" in texts
    for text in (
        "of which 5 deliver",
        "2 final, 2 half-skilled",
        "seeds of each: 2",
        "3 per ego, partner and seat",
        "96",  # games: 2 algorithms, 2 seeds, 4 partners, 2 seats, 3 episodes
    ):
        assert text in texts
    assert "with final partners and" in html
    assert "(published: 231 and 211)" in html
    assert html.count("<svg") == 3 + 1 + 3


def test_the_heat_map_shows_mean_ratios_final_partners_first(tmp_path, monkeypatch):
    shown = {}
    draw = zsc_plots.heat_map

    def spy(label, names, columns, ratios):
        shown.update(names=[(c.name, c.half_skilled, c.best) for c in columns], ratios=ratios)
        return draw(label, names, columns, ratios)

    monkeypatch.setattr(zsc_plots, "heat_map", spy)
    played = make_study(tmp_path)
    page_of(tmp_path, played)
    assert shown["names"] == [
        ("2", False, 190),
        ("5", False, 70),
        ("2", True, 110),
        ("5", True, 40),
    ]
    expected = [(played[name].mean(-1) / BEST).mean((0, 2))[[0, 2, 1, 3]] for name in ("sp", "fcp")]
    np.testing.assert_allclose(shown["ratios"], expected)


def test_one_seed_has_no_interval(tmp_path):
    html = page_of(tmp_path, make_study(tmp_path, seeds=1))
    assert "One seed has no interval." in html
    assert not any(text == "nan" or text.startswith("nan ") for text in Elements(html).texts)
    with (tmp_path / "report" / "table.csv").open() as file:
        assert {row["low"] + row["high"] for row in csv.DictReader(file)} == {""}


def test_a_layout_without_published_figures_has_no_column_for_them(tmp_path):
    html = page_of(tmp_path, make_study(tmp_path), "forced_coordination_multi")
    assert "ublished" not in html


def test_capped_ratios_are_mentioned(tmp_path):
    played = make_study(tmp_path)
    played["fcp"] = 2 * played["fcp"]  # better than best responses
    (tmp_path / "measurement" / "played.npz").write_bytes(npz_bytes(played))
    assert "Ratios are capped" not in page_of(tmp_path, played)
    assert "Ratios are capped" in page_of(tmp_path, played, as_released=True)


@pytest.mark.parametrize(("steps", "small"), [(5e5, True), (1e7, False)])
def test_only_short_training_is_called_small_scale(tmp_path, steps, small):
    html = page_of(tmp_path, make_study(tmp_path, steps=steps))
    assert ("say nothing about the paper" in html) == small
    assert "<td>Candidates and best responses</td>" in html
    assert f'<td class="n">{steps:,.0f}</td>' in html


def test_unknown_settings_are_left_out(tmp_path):
    played = make_study(tmp_path)
    for config in tmp_path.rglob("config.json"):
        config.write_text("not json")
    html = page_of(tmp_path, played)
    assert "say nothing about the paper" not in html
    assert "steps of each" not in html


def test_films_are_embedded_and_other_files_are_not(tmp_path):
    played = make_study(tmp_path)
    assert "Films" not in page_of(tmp_path, played)
    films = tmp_path / "films"
    films.mkdir()
    (films / "fcp-with-biased-2.gif").write_bytes(b"GIF89a and more")
    (films / "fake.gif").write_bytes(b"secret")
    (films / "link.gif").symlink_to(films / "fcp-with-biased-2.gif")
    html = page_of(tmp_path, played)
    assert "FCP with biased-2" in html
    assert html.count("data:image/gif;base64,") == 1


def test_names_are_text_whatever_they_contain(tmp_path):
    names = ("biased-1", EVIL, *NAMES[2:])
    played = make_study(tmp_path, ("sp",), names=names)
    played["partners"] = np.array([EVIL, f"{EVIL}-mid", *PARTNERS[2:]])
    (tmp_path / "measurement" / "played.npz").write_bytes(npz_bytes({**played, EVIL: played["sp"]}))
    results = results_of(played, LAYOUT)
    results.append(replace(results[0], name=EVIL))
    path = write_study_report(tmp_path, f"{LAYOUT}{EVIL}", results)
    page = Elements(path.read_text())
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert "onerror" not in page.attributes
    assert EVIL in page.texts  # the table
    assert page.texts.count(f"{EVIL[:13]}…") >= 5  # plots have less room
    formula = replace(results[0], name="=1+1")
    played["=1+1"] = played["sp"]
    (tmp_path / "measurement" / "played.npz").write_bytes(npz_bytes(played))
    write_study_report(tmp_path, LAYOUT, [formula])
    assert "\n'=1+1," in (tmp_path / "report" / "table.csv").read_text()


def test_the_page_is_the_same_whenever_it_is_written(tmp_path):
    played = make_study(tmp_path)
    assert page_of(tmp_path, played) == page_of(tmp_path, played)


def test_a_report_needs_results(tmp_path):
    with pytest.raises(ValueError, match="at least one algorithm"):
        write_study_report(tmp_path, LAYOUT, [])


def test_components_of_points_on_a_line():
    """Columns are scaled by their maximum, so both count alike."""
    points, shares = zsc_plots.components(np.array([[0.0, 0.0], [5.0, 50.0], [10.0, 100.0]]))
    np.testing.assert_allclose(points[:, 0], [-(0.5**0.5), 0, 0.5**0.5], atol=1e-3)
    np.testing.assert_allclose(points[:, 1], 0, atol=1e-3)
    np.testing.assert_allclose(shares, [1, 0], atol=1e-6)


def test_components_of_one_candidate_and_of_equal_ones():
    for features in (np.ones((1, 4)), np.ones((3, 4)), np.zeros((3, 1))):
        points, shares = zsc_plots.components(features)
        np.testing.assert_allclose(points, np.zeros((len(features), 2)), atol=1e-9)
        np.testing.assert_allclose(shares, [0, 0], atol=1e-9)


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0, 1e6], [1.0, 0.0], [0.0, 0.0]])
def test_diversity_is_drawn_whatever_its_range(values):
    found = DiversityBySize(np.array(values), np.array(values) / 2)
    svg = zsc_plots.diversity("BR-Div", [2, 3], found, 2)
    assert svg.startswith('<svg role="img" aria-label="BR-Div"')
