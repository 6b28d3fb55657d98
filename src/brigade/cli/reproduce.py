"""The verb reproduce."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brigade.cli.flags import Parser, add_cache, prepare_jax, verb_parser
from brigade.cli.sweeps import add_where, check_where, make_workers

if TYPE_CHECKING:
    from brigade.launch.target import Target

ABOUT = (
    "Do what a table, a figure or a study of a paper needs, and print the results next to the "
    "published numbers. A target can have flags of its own: brigade reproduce TARGET --help."
)
RULES = (
    "What is done is not done again, and what was stopped continues. Any setting of brigade run "
    "applies to all runs of the target, for example --num-envs 64. Without a target, all targets "
    "are listed with their cost on this machine; --measure then times it."
)


def reproduce(words: list[str]) -> int:
    """`brigade reproduce TARGET`."""
    if not words or words == ["--measure"]:
        return list_targets(measure=bool(words))
    from brigade.launch.targets import find_target, named

    options, settings = target_parser(named(words[0])).parse_known_args(words)
    workers = workers_of(options)
    target = find_target(options.target, options.level)
    prepare_jax(options.cache)
    from brigade.launch.reproduce import reproduce as do_stages
    from brigade.launch.target import Request

    folder = options.out or Path("reproductions") / f"{target.folder_name}-{options.scale}"
    flags = vars(options)
    request = Request(folder, options.scale, settings, flags)
    try:
        path = do_stages(target, request, workers, options.quiet, flags.get("until"))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the same command continues from here") from None
    print(f"{'folder' if path == folder else target.result}: {path}")
    return 0


def target_parser(target: Target | None) -> Parser:
    """The flags of all targets, and of the one that is named."""
    from brigade.launch.target import SCALES
    from brigade.launch.target import Target as AnyTarget
    from brigade.launch.targets import targets

    about, scales = (target.about, target.scales) if target else (ABOUT, AnyTarget.scales)
    parser = verb_parser("reproduce", f"{about} {RULES}")
    parser.add_argument("target", metavar="TARGET", help=f"one of {', '.join(targets())}")
    parser.add_argument(
        "--level", choices=("1", "2", "3"), help="difficulty of the kitchens (default: 1)"
    )
    meanings = "; ".join(f"{scale}: {SCALES[scale]}" for scale in scales)
    parser.add_argument(
        "--scale", choices=scales, default="small", help=f"{meanings} (default: small)"
    )
    parser.add_argument(
        "--out", type=Path, help="folder for runs and results (default: reproductions/...)"
    )
    if target is not None:
        target.add_flags(parser)
    add_where(parser)
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    add_cache(parser)
    return parser


def list_targets(measure: bool) -> int:
    """`brigade reproduce` alone: all targets, with their cost on this machine."""
    prepare_jax()
    import jax

    from brigade.cli.bench import quick_speed
    from brigade.cli.doctor import known_speed
    from brigade.launch.overview import overview

    backend = jax.default_backend()
    faster = quick_speed().steps_per_second / known_speed(backend) if measure else None
    for line in overview(backend, faster):
        print(line)
    return 0


def workers_of(options: argparse.Namespace) -> Any:
    """Where the runs of a target are done; None for one after another in this process."""
    from brigade.launch.processes import Processes, share_memory

    check_where(options)
    flags = [] if options.cache else ["--no-cache"]
    if options.cluster is not None:
        return make_workers(options, flags)
    share_memory(options.jobs or 1)  # this process trains and plays, too
    return Processes(options.jobs, flags) if (options.jobs or 1) > 1 else None
