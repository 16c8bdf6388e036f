"""Kubernetes 1.36's table of the feature gates that kube-scheduler knows.

Each line has a gate, its stage, its default, and "locked" if no other value is allowed. A later
release of Kubernetes needs a new table.
"""

from __future__ import annotations

TABLE = """
APIResponseCompression                                BETA        true
APIServerIdentity                                     BETA        true
APIServerTracing                                      GA          true   locked
APIServingWithRoutine                                 ALPHA       false
AggregatedDiscoveryRemoveBetaType                     DEPRECATED  true   locked
AllAlpha                                              ALPHA       false
AllBeta                                               BETA        false
AllowDNSOnlyNodeCSR                                   DEPRECATED  false
AllowInsecureKubeletCertificateSigningRequests        DEPRECATED  false
AllowOverwriteTerminationGracePeriodSeconds           DEPRECATED  false  locked
AllowParsingUserUIDFromCertAuth                       BETA        true
AllowServiceExternalIPs                               GA          true
AllowUnsafeMalformedObjectDeletion                    ALPHA       false
AnonymousAuthConfigurableEndpoints                    GA          true   locked
AnyVolumeDataSource                                   GA          true   locked
AtomicFIFO                                            BETA        true
AuthorizeNodeWithSelectors                            GA          true   locked
AuthorizePodWebsocketUpgradeCreatePermission          BETA        true
AuthorizeWithSelectors                                GA          true   locked
BtreeWatchCache                                       GA          true   locked
CBORServingAndStorage                                 ALPHA       false
CPUManagerPolicyAlphaOptions                          ALPHA       false
CPUManagerPolicyBetaOptions                           BETA        true
CPUManagerPolicyOptions                               GA          true   locked
CRDObservedGenerationTracking                         BETA        true
CRDValidationRatcheting                               GA          true   locked
CRIListStreaming                                      ALPHA       false
CSIServiceAccountTokenSecrets                         GA          true   locked
CSIVolumeHealth                                       ALPHA       false
ChangeContainerStatusOnKubeletRestart                 DEPRECATED  false
ClearingNominatedNodeNameAfterBinding                 BETA        true
ClientsAllowCARotation                                BETA        true
ClientsAllowCBOR                                      ALPHA       false
ClientsAllowTLSCacheGC                                BETA        true
ClientsPreferCBOR                                     ALPHA       false
CloudControllerManagerWatchBasedRoutesReconciliation  ALPHA       false
CloudControllerManagerWebhook                         ALPHA       false
ClusterTrustBundle                                    BETA        false
ClusterTrustBundleProjection                          BETA        false
ComponentFlagz                                        BETA        true
ComponentStatusz                                      BETA        true
ConcurrentWatchObjectDecode                           BETA        false
ConsistentListFromCache                               GA          true   locked
ConstrainedImpersonation                              BETA        true
ContainerCheckpoint                                   BETA        true
ContainerRestartRules                                 BETA        true
ContainerStopSignals                                  ALPHA       false
ContextualLogging                                     BETA        true
CoordinatedLeaderElection                             BETA        false
CrossNamespaceVolumeDataSource                        ALPHA       false
CustomCPUCFSQuotaPeriod                               GA          true
CustomResourceFieldSelectors                          GA          true   locked
DRAAdminAccess                                        GA          true   locked
DRAConsumableCapacity                                 BETA        true
DRADeviceBindingConditions                            BETA        true
DRADeviceTaintRules                                   BETA        false
DRADeviceTaints                                       BETA        true
DRAExtendedResource                                   BETA        true
DRAListTypeAttributes                                 ALPHA       false
DRANodeAllocatableResources                           ALPHA       false
DRAPartitionableDevices                               BETA        true
DRAPrioritizedList                                    GA          true
DRAResourceClaimDeviceStatus                          BETA        true
DRAResourceClaimGranularStatusAuthorization           BETA        true
DRAResourcePoolStatus                                 ALPHA       false
DRASchedulerFilterTimeout                             BETA        true
DRAWorkloadResourceClaims                             ALPHA       false
DeclarativeValidation                                 GA          true   locked
DeclarativeValidationBeta                             BETA        true
DeclarativeValidationTakeover                         DEPRECATED  false
DeploymentReplicaSetTerminatingReplicas               BETA        true
DetectCacheInconsistency                              BETA        true
DisableAllocatorDualWrite                             GA          true   locked
DisableCPUQuotaWithExclusiveCPUs                      DEPRECATED  true
DisableNodeKubeProxyVersion                           DEPRECATED  true   locked
DynamicResourceAllocation                             GA          true   locked
EnvFiles                                              BETA        true
EventedPLEG                                           ALPHA       false
ExecProbeTimeout                                      GA          true   locked
ExtendWebSocketsToKubelet                             BETA        true
ExternalServiceAccountTokenSigner                     GA          true   locked
GangScheduling                                        ALPHA       false
GenericWorkload                                       ALPHA       false
GitRepoVolumeDriver                                   DEPRECATED  false  locked
GracefulNodeShutdown                                  BETA        true
GracefulNodeShutdownBasedOnPodPriority                BETA        true
HPAConfigurableTolerance                              BETA        true
HPAScaleToZero                                        ALPHA       false
HostnameOverride                                      BETA        true
ImageMaximumGCAge                                     GA          true   locked
ImageVolume                                           GA          true   locked
ImageVolumeWithDigest                                 ALPHA       false
InOrderInformers                                      GA          true   locked
InOrderInformersBatchProcess                          BETA        true
InPlacePodLevelResourcesVerticalScaling               BETA        true
InPlacePodVerticalScaling                             GA          true   locked
InPlacePodVerticalScalingExclusiveCPUs                ALPHA       false
InPlacePodVerticalScalingExclusiveMemory              ALPHA       false
InPlacePodVerticalScalingInitContainers               BETA        true
InformerResourceVersion                               GA          true
JobBackoffLimitPerIndex                               GA          true   locked
JobManagedBy                                          GA          true   locked
JobPodReplacementPolicy                               GA          true   locked
JobSuccessPolicy                                      GA          true   locked
KMSv1                                                 DEPRECATED  false
KubeletCgroupDriverFromCRI                            GA          true   locked
KubeletCrashLoopBackOffMax                            BETA        true
KubeletEnsureSecretPulledImages                       BETA        true
KubeletFineGrainedAuthz                               GA          true   locked
KubeletInUserNamespace                                ALPHA       false
KubeletPSI                                            GA          true   locked
KubeletPodResourcesDynamicResources                   GA          true   locked
KubeletPodResourcesGet                                GA          true   locked
KubeletPodResourcesListUseActivePods                  DEPRECATED  true
KubeletRegistrationGetOnExistsOnly                    DEPRECATED  false
KubeletSeparateDiskGC                                 BETA        true
KubeletServiceAccountTokenForCredentialProviders      BETA        true
KubeletTracing                                        GA          true   locked
ListFromCacheSnapshot                                 BETA        true
LocalStorageCapacityIsolationFSQuotaMonitoring        BETA        false
LogarithmicScaleDown                                  GA          true   locked
LoggingAlphaOptions                                   ALPHA       false
LoggingBetaOptions                                    BETA        true
ManifestBasedAdmissionControlConfig                   ALPHA       false
MatchLabelKeysInPodAffinity                           GA          true   locked
MatchLabelKeysInPodTopologySpread                     BETA        true
MatchLabelKeysInPodTopologySpreadSelectorMerge        BETA        true
MaxUnavailableStatefulSet                             BETA        false
MemoryQoS                                             ALPHA       false
MultiCIDRServiceAllocator                             GA          true   locked
MutableCSINodeAllocatableCount                        GA          true   locked
MutablePVNodeAffinity                                 ALPHA       false
MutablePodResourcesForSuspendedJobs                   BETA        true
MutableSchedulingDirectivesForSuspendedJobs           BETA        true
MutatingAdmissionPolicy                               GA          true
NFTablesProxyMode                                     GA          true   locked
NativeHistograms                                      ALPHA       false
NodeDeclaredFeatures                                  BETA        true
NodeInclusionPolicyInPodTopologySpread                GA          true   locked
NodeLogQuery                                          GA          true   locked
NodeSwap                                              GA          true   locked
NominatedNodeNameForExpectation                       BETA        true
OpenAPIEnums                                          BETA        true
OpportunisticBatching                                 BETA        true
OrderedNamespaceDeletion                              GA          true   locked
PLEGOnDemandRelist                                    BETA        true
PersistentVolumeClaimUnusedSinceTime                  ALPHA       false
PodAndContainerStatsFromCRI                           ALPHA       false
PodCertificateRequest                                 BETA        false
PodDeletionCost                                       BETA        true
PodLevelResourceManagers                              ALPHA       false
PodLevelResources                                     BETA        true
PodLifecycleSleepAction                               GA          true   locked
PodLifecycleSleepActionAllowZero                      GA          true   locked
PodLogsQuerySplitStreams                              ALPHA       false
PodObservedGenerationTracking                         GA          true   locked
PodReadyToStartContainersCondition                    BETA        true
PodSchedulingReadiness                                GA          true   locked
PodTopologyLabelsAdmission                            BETA        true
PodsAPI                                               ALPHA       false
PortForwardWebsockets                                 BETA        true
PreferSameTrafficDistribution                         GA          true   locked
PreventStaticPodAPIReferences                         BETA        true
ProcMountType                                         GA          true   locked
QOSReserved                                           ALPHA       false
RecoverVolumeExpansionFailure                         GA          true   locked
RecursiveReadOnlyMounts                               GA          true   locked
ReduceDefaultCrashLoopBackOffDecay                    ALPHA       false
RelaxedDNSSearchValidation                            GA          true   locked
RelaxedEnvironmentVariableValidation                  GA          true   locked
RelaxedServiceNameValidation                          BETA        true
ReloadKubeletClientCAFile                             BETA        true
ReloadKubeletServerCertificateFile                    BETA        true
RemoteRequestHeaderUID                                BETA        true
ResilientWatchCacheInitialization                     GA          true   locked
ResourceHealthStatus                                  BETA        true
ResourceHealthStatusMessage                           BETA        true
RestartAllContainersOnContainerExits                  BETA        true
RetryGenerateName                                     GA          true   locked
RotateKubeletServerCertificate                        BETA        true
RuntimeClassInImageCriApi                             ALPHA       false
SELinuxChangePolicy                                   GA          true   locked
SELinuxMount                                          BETA        false
SELinuxMountReadWriteOncePod                          GA          true   locked
SchedulerAsyncAPICalls                                BETA        false
SchedulerAsyncPreemption                              BETA        true
SchedulerPopFromBackoffQ                              BETA        true
SchedulerQueueingHints                                GA          true   locked
SeparateCacheWatchRPC                                 DEPRECATED  false  locked
SeparateTaintEvictionController                       GA          true   locked
ServiceAccountNodeAudienceRestriction                 BETA        true
ServiceAccountTokenJTI                                GA          true   locked
ServiceAccountTokenNodeBinding                        GA          true   locked
ServiceAccountTokenNodeBindingValidation              GA          true   locked
ServiceAccountTokenPodNodeInfo                        GA          true   locked
ServiceCIDRStatusFieldWiping                          DEPRECATED  true
ShardedListAndWatch                                   ALPHA       false
SidecarContainers                                     GA          true   locked
SizeBasedListCostEstimate                             BETA        true
StaleControllerConsistencyDaemonSet                   BETA        true
StaleControllerConsistencyJob                         BETA        true
StaleControllerConsistencyReplicaSet                  BETA        true
StaleControllerConsistencyStatefulSet                 BETA        true
StatefulSetSemanticRevisionComparison                 BETA        true
StorageCapacityScoring                                ALPHA       false
StorageNamespaceIndex                                 DEPRECATED  true
StorageVersionAPI                                     ALPHA       false
StorageVersionHash                                    BETA        true
StorageVersionMigrator                                BETA        false
StreamingCollectionEncodingToJSON                     GA          true   locked
StreamingCollectionEncodingToProtobuf                 GA          true   locked
StrictIPCIDRValidation                                BETA        true
StructuredAuthenticationConfiguration                 GA          true   locked
StructuredAuthenticationConfigurationEgressSelector   BETA        true
StructuredAuthenticationConfigurationJWKSMetrics      BETA        true
SupplementalGroupsPolicy                              GA          true   locked
SystemdWatchdog                                       GA          true   locked
TaintTolerationComparisonOperators                    ALPHA       false
TokenRequestServiceAccountUIDValidation               BETA        true
TopologyAwareWorkloadScheduling                       ALPHA       false
TopologyManagerPolicyAlphaOptions                     ALPHA       false
TopologyManagerPolicyBetaOptions                      BETA        true
TopologyManagerPolicyOptions                          GA          true   locked
TranslateStreamCloseWebsocketRequests                 BETA        true
UnauthenticatedHTTP2DOSMitigation                     BETA        true
UnknownVersionInteroperabilityProxy                   BETA        true
UnlockWhileProcessingFIFO                             BETA        true
UserNamespacesHostNetworkSupport                      ALPHA       false
UserNamespacesSupport                                 GA          true   locked
VolumeAttributesClass                                 GA          true   locked
VolumeLimitScaling                                    ALPHA       false
WatchCacheInitializationPostStartHook                 BETA        true
WatchList                                             BETA        true
WatchListClient                                       BETA        true
WinDSR                                                GA          true   locked
WinOverlay                                            GA          true   locked
WindowsCPUAndMemoryAffinity                           ALPHA       false
WindowsGracefulNodeShutdown                           BETA        true
WindowsHostNetwork                                    DEPRECATED  false
WorkloadAwarePreemption                               ALPHA       false
WorkloadWithJob                                       ALPHA       false
"""

# A gate may be on only if all of these are.
DEPENDENCIES = {
    "AuthorizeNodeWithSelectors": ("AuthorizeWithSelectors",),
    "ClusterTrustBundleProjection": ("ClusterTrustBundle",),
    "DRAAdminAccess": ("DynamicResourceAllocation",),
    "DRAConsumableCapacity": ("DynamicResourceAllocation",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus", "DynamicResourceAllocation"),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRADeviceTaints": ("DynamicResourceAllocation",),
    "DRAExtendedResource": ("DynamicResourceAllocation",),
    "DRAListTypeAttributes": ("DynamicResourceAllocation",),
    "DRANodeAllocatableResources": ("DynamicResourceAllocation",),
    "DRAPartitionableDevices": ("DynamicResourceAllocation",),
    "DRAPrioritizedList": ("DynamicResourceAllocation",),
    "DRAResourceClaimGranularStatusAuthorization": (
        "DRAResourceClaimDeviceStatus",
        "DynamicResourceAllocation",
    ),
    "DRAResourcePoolStatus": ("DynamicResourceAllocation",),
    "DRASchedulerFilterTimeout": ("DynamicResourceAllocation",),
    "DRAWorkloadResourceClaims": ("DynamicResourceAllocation", "GenericWorkload"),
    "DeclarativeValidationBeta": ("DeclarativeValidation",),
    "DeclarativeValidationTakeover": ("DeclarativeValidation",),
    "DisableAllocatorDualWrite": ("MultiCIDRServiceAllocator",),
    "ExtendWebSocketsToKubelet": ("NodeDeclaredFeatures",),
    "GangScheduling": ("GenericWorkload",),
    "GracefulNodeShutdownBasedOnPodPriority": ("GracefulNodeShutdown",),
    "ImageVolumeWithDigest": ("ImageVolume",),
    "InPlacePodLevelResourcesVerticalScaling": (
        "InPlacePodVerticalScaling",
        "NodeDeclaredFeatures",
        "PodLevelResources",
    ),
    "InPlacePodVerticalScalingExclusiveCPUs": ("InPlacePodVerticalScaling",),
    "InPlacePodVerticalScalingExclusiveMemory": ("InPlacePodVerticalScaling",),
    "InPlacePodVerticalScalingInitContainers": (
        "InPlacePodVerticalScaling",
        "NodeDeclaredFeatures",
    ),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "PodCertificateRequest": ("AuthorizeNodeWithSelectors",),
    "PodLevelResourceManagers": ("PodLevelResources",),
    "PodLifecycleSleepActionAllowZero": ("PodLifecycleSleepAction",),
    "ProcMountType": ("UserNamespacesSupport",),
    "ResourceHealthStatus": ("DynamicResourceAllocation",),
    "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
    "RestartAllContainersOnContainerExits": ("ContainerRestartRules", "NodeDeclaredFeatures"),
    "ServiceAccountTokenNodeBinding": ("ServiceAccountTokenNodeBindingValidation",),
    "StaleControllerConsistencyDaemonSet": ("AtomicFIFO",),
    "StaleControllerConsistencyJob": ("AtomicFIFO",),
    "StaleControllerConsistencyReplicaSet": ("AtomicFIFO",),
    "StaleControllerConsistencyStatefulSet": ("AtomicFIFO",),
    "StorageVersionAPI": ("APIServerIdentity",),
    "StructuredAuthenticationConfigurationEgressSelector": (
        "StructuredAuthenticationConfiguration",
    ),
    "StructuredAuthenticationConfigurationJWKSMetrics": ("StructuredAuthenticationConfiguration",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "UnknownVersionInteroperabilityProxy": ("APIServerIdentity",),
    "UserNamespacesHostNetworkSupport": ("NodeDeclaredFeatures", "UserNamespacesSupport"),
    "WindowsGracefulNodeShutdown": ("GracefulNodeShutdown",),
    "WorkloadAwarePreemption": ("GangScheduling",),
    "WorkloadWithJob": ("GenericWorkload",),
}
