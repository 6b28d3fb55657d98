"""Evaluating all tasks, 10 games each, in one program.

    python bench/evaluate_overcooked.py
    python bench/evaluate_overcooked.py --level 3 --num-envs 256

The defaults are the MEAL release's settings. The last line is one JSON object.
"""

from __future__ import annotations

import sys

from brigade.cli.bench import evaluation_speed, print_result, setting_from

if __name__ == "__main__":
    setting = setting_from(sys.argv[1:], __doc__)
    print_result("evaluate_overcooked", setting, evaluation_speed(setting))
