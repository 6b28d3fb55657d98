"""Whole training: collect, learn and, with --evaluate, evaluate all tasks every 5 updates.

    python bench/train_overcooked.py
    python bench/train_overcooked.py --tasks 20 --evaluate
    python bench/train_overcooked.py --num-envs 16 --epochs 4 --num-minibatches 8 --hidden 64 64

The defaults are the MEAL release's settings. The last line is one JSON object.
"""

from __future__ import annotations

import sys

from brigade.cli.bench import print_result, setting_from, training_speed

if __name__ == "__main__":
    setting = setting_from(sys.argv[1:], __doc__)
    print_result("train_overcooked", setting, training_speed(setting))
