"""The command `brigade`: runs one verb and prints every error as one line.

Verbs import what they need when they run, so `brigade list` and `--help` load no JAX.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from brigade import __version__
from brigade.cli import histories, policies, reproduce, sweeps, tools, training
from brigade.cli.errors import in_one_line, print_line
from brigade.errors import UserError
from brigade.registry import nearest

USAGE = """usage: brigade VERB ...

Continual and cooperative multi-agent reinforcement learning.

  list        show all benchmarks, methods, learners, partners and so on
  run         train on a benchmark's tasks one after another, with or without partners
  population  train many policies in parallel, to be used as partners
  sweep       do one run for every value of a setting, and compare them
  resume      continue a stopped run from its last checkpoint
  report      tables, learning curves and pictures of one or more runs
  histories   record how egos learn beside teammates, for in-context learners
  export      save the policies of a run in one file
  evaluate    measure a policy's zero-shot coordination with ready-made partners
  crossplay   play every policy with every other: a score matrix and a heat map
  plan        estimate the cost of a run before it starts
  layouts     print generated kitchens, or check one of your own
  watch       record one episode of a run's policies as a GIF
  bench       time every part of training on this machine
  doctor      show what is installed, which devices are used and what is missing
  reproduce   rerun a published table or study and compare the results with the paper's

brigade VERB --help lists the options of a verb. --debug shows the traceback of an error.
"""

VERBS: dict[str, Callable[[list[str]], int]] = {
    "list": tools.list_names,
    "run": training.run,
    "population": training.population,
    "sweep": sweeps.sweep,
    "resume": training.resume,
    "report": policies.report,
    "histories": histories.histories,
    "export": policies.export,
    "evaluate": policies.evaluate,
    "crossplay": policies.crossplay,
    "plan": tools.plan,
    "layouts": tools.layouts,
    "watch": policies.watch,
    "bench": tools.bench,
    "doctor": tools.doctor,
    "reproduce": reproduce.reproduce,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status.

    A mistake of the user is one line on standard error and status 2. A limit of the machine, such
    as too little memory, is one line and status 1.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if words[0] == "--version":
        print(f"brigade {__version__}")
        return 0
    try:
        return find_verb(words[0])(words[1:])
    except SystemExit as stop:  # raised by argparse after --help
        return int(stop.code or 0)
    except BrokenPipeError:  # the reader of our output, such as `head`, has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, KeyboardInterrupt) as error:
        told = in_one_line(error, words[0])
        if debug or told is None:
            raise
        print_line(told[0])
        return told[1]


def find_verb(name: str) -> Callable[[list[str]], int]:
    """The function of a verb; for an unknown name, an error that suggests the nearest."""
    if name not in VERBS:
        near = nearest(name, VERBS)
        hint = f"did you mean {near!r}?" if near else f"one of {', '.join(VERBS)}"
        raise UserError(f"unknown verb {name!r}: {hint}")
    return VERBS[name]
