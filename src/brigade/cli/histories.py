"""The verb histories."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from brigade.cli.flags import add_cache, count, prepare_jax, read_config, verb_parser
from brigade.cli.reproduce import workers_of
from brigade.cli.sweeps import add_where
from brigade.errors import UserError

USAGE = """usage: brigade histories make MANIFEST --out DIR [flags]
       brigade histories show DIR [--out FILE]

Learning histories: streams of experience of egos that learn beside one teammate each, from which
in-context learners (ad, dpt) are trained.

  make   train an ego with every teammate of a manifest, and keep its best histories
  show   print how many there are and how their returns improve, and draw them
"""


def histories(words: list[str]) -> int:
    """`brigade histories make` and `show`."""
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    parts = {"make": make, "show": show}
    if words[0] not in parts:
        raise UserError(f"histories {words[0]!r} is unknown; use {' or '.join(parts)}")
    return parts[words[0]](words[1:])


def make(words: list[str]) -> int:
    """`brigade histories make MANIFEST --out DIR`."""
    parser = verb_parser(
        "histories make",
        "Train an ego from scratch with every teammate of the manifest's train split, and keep the "
        "histories that end highest and improve most. A manifest has a JSON object per line: "
        "task_id, layout, teammate, and perhaps split (train, test), track (teammate, layout), "
        "seed, family, benchmark. What is done is not done again; what is damaged is made again. "
        "Any setting of brigade run applies to all egos, for example --steps-per-task 3e5, "
        "--histories 32 (of every teammate) or --history-steps 100 (of every episode).",
    )
    parser.add_argument("manifest", type=Path, metavar="MANIFEST", help="JSON lines, one per task")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--at-once",
        type=partial(count, least=1),
        default=8,
        metavar="N",
        help="teammates of a layout in one program (default: 8)",
    )
    parser.add_argument("--config", metavar="FILE", help="TOML or JSON file with settings")
    parser.add_argument("--trust", action="store_true", help="execute the code that the file names")
    add_where(parser)
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    add_cache(parser)
    options, settings = parser.parse_known_args(words)
    workers = workers_of(options)
    prepare_jax(options.cache)
    from brigade.launch.histories import make_histories

    try:
        made = make_histories(
            options.manifest,
            options.out,
            (read_config(options), settings),
            options.at_once,
            workers,
            options.quiet,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues from here") from None
    print(f"{len(made)} histories, {sum(each.T for each in made):,} timesteps: {options.out}")
    return 0


def show(words: list[str]) -> int:
    """`brigade histories show DIR`."""
    parser = verb_parser(
        "histories show",
        "Print the size of learning histories and how returns improve, by layout and teammate, and "
        "draw the returns over time.",
    )
    parser.add_argument(
        "folder",
        type=Path,
        metavar="DIR",
        help="a folder of histories make, RUN/histories, or a dataset of the release",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the picture (default: DIR/returns.png)"
    )
    options = parser.parse_args(words)
    from rich.console import Console

    from brigade.histories.files import FileHistories, closing
    from brigade.report.histories import draw, table_of

    out = options.out or options.folder / "returns.png"
    if options.out and out.exists():
        raise UserError(f"{out} exists already; choose another --out")
    with closing(FileHistories(options.folder)) as found:
        table = table_of(found)
        draw(found, out)
    table.to_terminal(Console())
    print(f"picture: {out}")
    return 0
