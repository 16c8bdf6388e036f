"""How many examples the property tests draw: each takes a share of those of the current profile.

BERTH_PROFILE names the profile. `quick` (the default) and `full` draw the same examples in each
run, whichever tests run; `long` draws others each time and prints how to repeat those that fail.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

EXAMPLES = {"quick": 25, "full": 40, "long": 1000}


def load_profile() -> None:
    """Makes the profile that BERTH_PROFILE names the default of all property tests."""
    name = os.environ.get("BERTH_PROFILE", "quick")
    for profile, examples in EXAMPLES.items():
        random = profile == "long"
        settings.register_profile(
            profile,
            max_examples=examples,
            derandomize=not random,
            print_blob=random,
            database=None,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
    settings.load_profile(name)
    if settings().derandomize:
        # Hypothesis also draws constants of the modules that are imported so far: those depend on
        # the tests that ran before, and reading them takes a second.
        vars(providers)["_get_local_constants"] = Constants


def examples(share: float = 1.0, steps: int = 30) -> settings:
    """Returns the profile's settings with this share of its examples, for a test or a state machine
    whose histories have at most `steps` steps.
    """
    number = max(1, round(share * settings().max_examples))
    return settings(max_examples=number, stateful_step_count=steps)
