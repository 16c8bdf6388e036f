"""How many random histories the property tests run: 500, or what BERTH_HISTORIES says (a long run
takes 20000).
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def histories(steps: int = 30) -> settings:
    """Settings of a state machine; every history takes at most `steps` steps."""
    wanted = int(os.environ.get("BERTH_HISTORIES", "500"))
    return settings(
        max_examples=wanted,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
