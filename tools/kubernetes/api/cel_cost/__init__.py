"""The cost of a device selector in the worst case, which the API server limits.

Mirrors cel-go's checker/cost.go and the estimates of k8s.io/dynamic-resource-allocation/cel.
"""

from __future__ import annotations

from .estimates import worst_cost

__all__ = ["worst_cost"]
