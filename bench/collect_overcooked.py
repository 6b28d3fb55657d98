"""Acting and stepping many kitchens, without learning.

    python bench/collect_overcooked.py
    python bench/collect_overcooked.py --level 3 --num-envs 256

The defaults are the MEAL release's settings. The last line is one JSON object.
"""

from __future__ import annotations

import sys

from brigade.cli.bench import collect_speed, print_result, setting_from

if __name__ == "__main__":
    setting = setting_from(sys.argv[1:], __doc__)
    print_result("collect_overcooked", setting, collect_speed(setting))
