"""Numbers to fold into a random key for streams that are not part of its splits.

`jax.random.fold_in(key, n)` equals `jax.random.split(key, m)[n]`, so a small number would yield the
same key as a split of `key` elsewhere. These numbers are larger than any split.
"""

EVALUATION = 1_000_000_001  # episodes of evaluations
SEATS = 1_000_000_002  # sampled seatings
AFTER_ROLLOUT = 1_000_000_003  # `after` of a matchmaker
SECOND_SEAT = 1_000_000_004  # games of an ego on seat 1
TASKS = 1_000_000_005  # the task of a rollout in multi-task learning
MORE_EVALUATIONS = 1_000_000_006  # and the numbers after it: held-out partners, few-shot clones
BEGIN_TASK = 1_000_001_000  # `begin_task` of a method
MATCHES = 1_000_001_001  # the initial state of a matchmaker
