"""Learning from one rollout, without collecting it.

    python bench/update_overcooked.py
    python bench/update_overcooked.py --level 3 --num-envs 256

The defaults are the MEAL release's settings. The last line is one JSON object.
"""

from __future__ import annotations

import sys

from brigade.cli.bench import print_result, setting_from, update_speed

if __name__ == "__main__":
    setting = setting_from(sys.argv[1:], __doc__)
    print_result("update_overcooked", setting, update_speed(setting))
