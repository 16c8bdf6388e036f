"""The number of random histories in a property test: 300, or BERTH_HISTORIES (20000 for a long
run).
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def histories(steps: int = 30) -> settings:
    """Settings of a state machine whose histories have at most `steps` steps."""
    wanted = int(os.environ.get("BERTH_HISTORIES", "300"))
    return settings(
        max_examples=wanted,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
