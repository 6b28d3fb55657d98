"""The verbs that train nothing: list, plan, layouts, bench and doctor."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from brigade.cli.flags import add_cache, count, prepare_jax, read_experiment, verb_parser
from brigade.registry import KINDS, OURS


def list_names(words: list[str]) -> int:
    """`brigade list [KIND [NAME]]`."""
    parser = verb_parser(
        "list",
        "Show everything that can be used by name, and which optional packages are missing. With a "
        "kind and a name, show what it does, its settings, its paper and an example.",
    )
    parser.add_argument("kind", nargs="?", help=f"one of {', '.join(KINDS)} (default: all)")
    parser.add_argument("name", nargs="?", help="a name of that kind, for its page")
    options = parser.parse_args(words)
    from brigade.cli.listing import print_extras, print_list

    if options.name:
        from brigade.cli.entry_page import print_entry

        print_entry(options.kind, options.name)
    elif options.kind:
        print_list([options.kind])
    else:
        print_list()
        print_extras(OURS)
    return 0


def plan(words: list[str]) -> int:
    """`brigade plan BENCHMARK [flags]`: the same flags as run."""
    if any(word in ("-h", "--help") for word in words):
        print("usage: brigade plan BENCHMARK [--no-measure] [the flags of brigade run]\n")
        print("Estimate the steps, memory, disk space and time of a run, without starting it.")
        print("The time comes from training on a small rollout for about half a minute;")
        print("--no-measure skips it.")
        return 0
    timed = "--no-measure" not in words
    words = [word for word in words if word != "--no-measure"]
    options, experiment = read_experiment("plan", words)
    from brigade.cli.plan import print_plan

    print_plan(experiment, timed, options.trust)
    return 0


def layouts(words: list[str]) -> int:
    """`brigade layouts`."""
    parser = verb_parser("layouts", "Print generated kitchens of a level, or check your own.")
    parser.add_argument(
        "--level",
        default="1",
        help="1, 2, 3 or extreme, or release-1 and so on (default: 1)",
    )
    parser.add_argument("--num", type=count, default=4, help="number of kitchens (default: 4)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generator (default: 0)")
    parser.add_argument(
        "--agents", type=count, default=None, help="number of cooks, 1 to 4 (default: 2)"
    )
    parser.add_argument(
        "--require-handoff",
        action="store_true",
        help="only kitchens in which items must be passed over counters",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON, one list of rows per kitchen"
    )
    parser.add_argument(
        "--out", type=Path, help="also write a picture and a text file of each here"
    )
    parser.add_argument("--file", type=Path, help="check the kitchen in this text file instead")
    parser.add_argument(
        "--v2",
        action="store_true",
        help="OvercookedV2: its published kitchens, or with --file your own",
    )
    options = parser.parse_args(words)
    from brigade.cli import layouts as made

    if options.v2:
        kitchens = made.v2_kitchens(options.file)
    elif options.file:
        kitchen = made.read_kitchen(options.file, options.agents, options.require_handoff)
        kitchens = {options.file.stem: kitchen}
    else:
        kitchens = made.generated_kitchens(
            options.level,
            options.num,
            options.seed,
            options.agents or 2,
            options.require_handoff,
        )
    if options.json:
        print(json.dumps([list(rows) for rows in kitchens.values()]))
    else:
        print("\n\n".join(f"# {name}\n" + "\n".join(rows) for name, rows in kitchens.items()))
    if options.file and not options.json:
        print(f"\n{options.file} {'can be played' if options.v2 else 'obeys all ten rules'}")
    if options.out:
        from brigade.envs.overcooked import render_grid

        picture = partial(render_grid, num_agents=options.agents or 2)
        made.save_kitchens(kitchens, options.out, made.v2_picture if options.v2 else picture)
    return 0


def bench(words: list[str]) -> int:
    """`brigade bench`."""
    parser = verb_parser("bench", "Time every part of training on this machine, in steps/s.")
    parser.add_argument(
        "--level",
        choices=("1", "2", "3"),
        default="1",
        help="difficulty of the kitchens (default: 1)",
    )
    parser.add_argument(
        "--num-envs",
        type=count,
        help="environments in parallel (default: 2048 on an accelerator, 16 on a CPU)",
    )
    add_cache(parser)
    options = parser.parse_args(words)
    prepare_jax(options.cache)
    from brigade.cli.bench import print_bench

    print_bench(options.level, options.num_envs)
    return 0


def doctor(words: list[str]) -> int:
    """`brigade doctor`."""
    parser = verb_parser(
        "doctor",
        "Show what is installed, which devices JAX sees, how fast they are, and what to do about "
        "what is missing. The exit status is 1 if something is broken.",
    )
    parser.add_argument(
        "--no-benchmark",
        dest="benchmark",
        action="store_false",
        help="do not measure the speed, which takes about ten seconds",
    )
    options = parser.parse_args(words)
    from brigade.cli.doctor import print_examination

    return print_examination(options.benchmark)
