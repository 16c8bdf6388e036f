"""KubeletConfiguration files: the settings of kubelets, for the nodes that a document selects.

A file has one document or several. One may name its nodes by labels, in an annotation:

    metadata: {annotations: {berth.dev/node-selector: "pool=small"}}

Fields of a kubelet that a hollow one has no use for are accepted. Paths are relative to the folder
of the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from berth.actors.scheduling.kube.labels import SelectorError
from berth.actors.scheduling.kube.yaml_documents import YamlError, documents
from berth.config.fields import Problems, converted, read_document, shown
from berth.config.types import Duration

from ...kubernetes.api.requests.label_selectors import label_selector
from ...kubernetes.kubelet.pressure.kubelet_settings import (
    FILE_CHECK_SECONDS,
    IMAGE_SECONDS,
    TRANSITION_SECONDS,
    Configuration,
    Settings,
)
from ...kubernetes.kubelet.pressure.thresholds import (
    DEFAULT_HARD,
    ThresholdError,
    parse_thresholds,
    with_allocatable,
)
from ...kubernetes.objects.structs import Document

API_VERSION, KIND = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"
SELECTOR = "berth.dev/node-selector"
LEAST_FILE_CHECK_SECONDS = 0.1


# The other fields of kubelet.config.k8s.io/v1beta1.
_UNUSED_TEXT = """
    address allowedUnsafeSysctls authentication authorization cgroupDriver cgroupRoot cgroupsPerQOS
    clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxFiles
    containerLogMaxSize containerLogMaxWorkers containerLogMonitorInterval containerRuntimeEndpoint
    contentType cpuCFSQuota cpuCFSQuotaPeriod cpuManagerPolicyOptions
    cpuManagerReconcilePeriod crashLoopBackOff enableContentionProfiling
    enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers
    enableProfilingHandler enableServer enableSystemLogHandler enableSystemLogQuery
    enforceNodeAllocatable eventBurst eventRecordQPS failCgroupV1 failSwapOn featureGates
    hairpinMode healthzBindAddress healthzPort httpCheckFrequency
    imageMaximumGCAge
    imagePullCredentialsVerificationPolicy imageServiceEndpoint iptablesDropBit
    iptablesMasqueradeBit kernelMemcgNotification kubeAPIBurst kubeAPIQPS kubeReserved
    kubeReservedCgroup kubeletCgroups logging makeIPTablesUtilChains maxOpenFiles
    maxParallelImagePulls memoryReservationPolicy memorySwap
    memoryThrottlingFactor nodeLeaseDurationSeconds nodeStatusMaxImages nodeStatusReportFrequency
    nodeStatusUpdateFrequency oomScoreAdj podCIDR podLogsDir podsPerCore port
    preloadedImagesVerificationAllowlist protectKernelDefaults providerID qosReserved readOnlyPort
    registerNode registerWithTaints registryBurst registryPullQPS reservedMemory
    reservedSystemCPUs resolvConf rotateCertificates runOnce runtimeRequestTimeout seccompDefault
    serializeImagePulls serverTLSBootstrap showHiddenMetricsForVersion shutdownGracePeriod
    shutdownGracePeriodByPodPriority shutdownGracePeriodCriticalPods singleProcessOOMKill
    staticPodURL staticPodURLHeader streamingConnectionIdleTimeout syncFrequency
    systemCgroups systemReserved systemReservedCgroup tlsCertFile tlsCipherSuites
    tlsCurvePreferences tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy
    topologyManagerPolicyOptions topologyManagerScope tracing userNamespaces volumePluginDir
    volumeStatsAggPeriod
"""
_UNUSED = frozenset(_UNUSED_TEXT.split())


class ConfigurationError(ValueError):
    """A file of kubelet configurations that cannot be used; the message names file and field."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    annotations: dict[str, str] = {}


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _Metadata = _Metadata()
    eviction_hard: dict[str, str] | None = None
    eviction_soft: dict[str, str] = {}
    eviction_soft_grace_period: dict[str, str] = {}
    eviction_minimum_reclaim: dict[str, str] = {}
    eviction_pressure_transition_period: Duration = Duration(0)
    eviction_max_pod_grace_period: int = 0
    merge_default_eviction_settings: bool = False
    max_pods: int = 0
    local_storage_capacity_isolation: bool = True
    cpu_manager_policy: Literal["none", "static", ""] = ""
    memory_manager_policy: Literal["None", "Static", ""] = ""
    static_pod_path: str = ""
    file_check_frequency: Duration = Duration(0)
    image_gc_high_threshold_percent: int = msgspec.field(
        default=85, name="imageGCHighThresholdPercent"
    )
    image_gc_low_threshold_percent: int = msgspec.field(
        default=80, name="imageGCLowThresholdPercent"
    )
    image_minimum_gc_age: Duration = msgspec.field(default=Duration(0), name="imageMinimumGCAge")
    pod_pids_limit: int = -1


def read_configurations(file: Path) -> list[Configuration]:
    """Reads the documents of a file. Raises ConfigurationError."""
    try:
        read = [document for document in documents(file.read_bytes()) if document is not None]
    except YamlError as problem:
        raise ConfigurationError(f"{file}: {problem}") from None
    if not read:
        raise ConfigurationError(f"{file}: expected a {KIND}, got nothing")
    configurations = []
    for number, document in enumerate(read):
        try:
            configurations.append(_configuration(document, file.parent))
        except ConfigurationError as problem:
            where = f"{file}, document {number + 1}" if len(read) > 1 else str(file)
            raise ConfigurationError(f"{where}: {problem}") from None
    return configurations


def _configuration(document: object, folder: Path) -> Configuration:
    """Reads a document; paths in it are relative to the folder. Raises ConfigurationError."""
    fields = _read(document)
    static_pods = folder / fields.static_pod_path if fields.static_pod_path else None
    if static_pods is not None and not (static_pods.is_dir() or static_pods.is_file()):
        raise ConfigurationError(f"staticPodPath: expected a folder or a file, got {static_pods}")
    hard = fields.eviction_hard
    if hard is None or fields.merge_default_eviction_settings:
        hard = {**(hard or {}), **{k: v for k, v in DEFAULT_HARD.items() if k not in (hard or {})}}
    try:
        thresholds = parse_thresholds(
            hard,
            fields.eviction_soft,
            fields.eviction_soft_grace_period,
            fields.eviction_minimum_reclaim,
        )
        nodes = label_selector(fields.metadata.annotations.get(SELECTOR, ""))
    except ThresholdError as problem:
        raise ConfigurationError(str(problem)) from None
    except SelectorError as problem:
        raise ConfigurationError(f"metadata.annotations[{SELECTOR}]: {problem}") from None
    settings = Settings(
        tuple(with_allocatable(thresholds)),
        float(fields.eviction_pressure_transition_period) or TRANSITION_SECONDS,
        fields.eviction_max_pod_grace_period,
        fields.max_pods or None,
        fields.local_storage_capacity_isolation,
        tuple(
            resource
            for resource, policy in (
                ("cpu", fields.cpu_manager_policy),
                ("memory", fields.memory_manager_policy),
            )
            if policy.lower() == "static"
        ),
        None if static_pods is None else str(static_pods),
        float(fields.file_check_frequency) or FILE_CHECK_SECONDS,
        fields.image_gc_high_threshold_percent,
        fields.image_gc_low_threshold_percent,
        float(fields.image_minimum_gc_age) or IMAGE_SECONDS,
        fields.pod_pids_limit if fields.pod_pids_limit > 0 else None,
    )
    return Configuration(settings, nodes)


def _read(document: object) -> _Document:
    """Reads the fields of a document. Raises ConfigurationError for the first wrong one."""
    problems = Problems()
    problems.expect(isinstance(document, dict), "", "a mapping", shown(document))
    if not isinstance(document, dict):
        raise ConfigurationError(problems[0])
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        problems.expect(
            document.get(field) == expected, field, expected, shown(document.get(field))
        )
    used: Document = {field: at for field, at in document.items() if field not in _UNUSED}
    plain = read_document(used, _Document, problems)
    for field in ("evictionMaxPodGracePeriod", "maxPods"):
        number = used.get(field)
        if isinstance(number, int):
            problems.expect(number >= 0, field, "a number of at least 0", number)
    if problems:
        raise ConfigurationError(problems[0])
    read: _Document = converted(plain, _Document)
    for field, seconds in (
        ("evictionPressureTransitionPeriod", read.eviction_pressure_transition_period),
        ("fileCheckFrequency", read.file_check_frequency),
        ("imageMinimumGCAge", read.image_minimum_gc_age),
    ):
        if seconds < 0:
            raise ConfigurationError(f"{field}: expected at least 0")
    if 0 < read.file_check_frequency < LEAST_FILE_CHECK_SECONDS:
        raise ConfigurationError(
            f"fileCheckFrequency: expected at least 100ms, got {shown(used['fileCheckFrequency'])}"
        )
    high, low = read.image_gc_high_threshold_percent, read.image_gc_low_threshold_percent
    if not 0 <= high <= 100:
        raise ConfigurationError(f"imageGCHighThresholdPercent: expected 0 to 100, got {high}")
    if not 0 <= low < high:
        raise ConfigurationError(
            f"imageGCLowThresholdPercent: expected less than imageGCHighThresholdPercent ({high}), "
            f"got {low}"
        )
    return read
