"""What minor versions of Kubernetes changed in the scheduler without a feature gate.

Each line has the name of a change, the version that made it, and its pull request. The names are
berth's own: they cannot be set, and follow from the version.
"""

from __future__ import annotations

TABLE = """
BindingRetried 1.37 kubernetes#138855
CapacityInFormatOfStep 1.37 kubernetes#140161
ClaimCreatesByOwner 1.37 kubernetes#138542
ConfigOfChosenRequests 1.37 kubernetes#140702
CountersOfOwnNodes 1.37 kubernetes#139040
DeviceInSelectorErrors 1.37 kubernetes#136709
DeviceTaintRuleV1 1.37 kubernetes#138676
GatedNominations 1.37 kubernetes#139057
ImageVolumesInThreshold 1.37 kubernetes#138951
InformerMetrics 1.37 kubernetes#140511
ListAttributesInSelectors 1.37 kubernetes#139395
MetricStages 1.37 kubernetes#138176
MetricTexts 1.37 kubernetes#138567
PlacementPoints 1.36 kubernetes#137083
PodEventsSplit 1.37 kubernetes#135905
PodGroupPostFilterPoint 1.37 kubernetes#139674
PreemptionPlacementMessage 1.37 kubernetes#140180
QueuedEntities 1.37 kubernetes#139840
QuietPostFilter 1.37 kubernetes#140222
ResizeFootprint 1.37 kubernetes#140047
"""
