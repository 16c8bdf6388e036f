"""The feature gates that kube-scheduler knows, by minor version of Kubernetes.

Each line has a gate and its specs, separated by semicolons: the first version that the spec holds
for, the gate's stage, its default, and "locked" if no other value is allowed; or "removed". A gate
that is older than the oldest version begins with that version. A spec that ends in "beside" and a
version holds only if no component of the control plane is older than that.
"""

from __future__ import annotations

TABLE = """
APIResponseCompression 1.35 BETA true
APIServerIdentity 1.35 BETA true
APIServerTracing 1.35 GA true locked; 1.37 removed
APIServerWebhookAuthenticationToken 1.37 ALPHA false
APIServingWithRoutine 1.35 ALPHA false
AggregatedDiscoveryRemoveBetaType 1.35 DEPRECATED true locked; 1.38 removed
AllAlpha 1.35 ALPHA false
AllBeta 1.35 BETA false
AllowDNSOnlyNodeCSR 1.35 DEPRECATED false
AllowInsecureKubeletCertificateSigningRequests 1.35 DEPRECATED false
AllowOverwriteTerminationGracePeriodSeconds 1.35 DEPRECATED false locked
AllowParsingUserUIDFromCertAuth 1.35 BETA true
AllowServiceExternalIPs 1.36 GA true
AllowUnsafeMalformedObjectDeletion 1.35 ALPHA false; 1.37 BETA true
AnonymousAuthConfigurableEndpoints 1.35 GA true locked; 1.37 removed
AnyVolumeDataSource 1.35 GA true locked; 1.37 removed
AtomicFIFO 1.36 BETA true
AtomicWriteVolumeUserFields 1.37 ALPHA false
AuthorizeNodeWithSelectors 1.35 GA true locked; 1.37 removed
AuthorizePodWebsocketUpgradeCreatePermission 1.35 BETA true
AuthorizeWithSelectors 1.35 GA true locked; 1.37 removed
BtreeWatchCache 1.35 GA true locked; 1.37 removed
CBORServingAndStorage 1.35 ALPHA false
CPUManagerPolicyAlphaOptions 1.35 ALPHA false
CPUManagerPolicyBetaOptions 1.35 BETA true
CPUManagerPolicyOptions 1.35 GA true locked
CRDObservedGenerationTracking 1.35 BETA false; 1.36 BETA true
CRDValidationRatcheting 1.35 GA true locked; 1.38 removed
CRIListStreaming 1.36 ALPHA false
CSIMigrationPortworx 1.35 GA true locked; 1.36 removed
CSIServiceAccountTokenSecrets 1.35 BETA true; 1.36 GA true locked
CSIVolumeHealth 1.35 ALPHA false
CertificateSigningRequestMLDSA 1.38 ALPHA false
ChangeContainerStatusOnKubeletRestart 1.35 DEPRECATED false
ClearingNominatedNodeNameAfterBinding 1.35 BETA true
ClientsAllowCARotation 1.36 BETA true
ClientsAllowCBOR 1.35 ALPHA false
ClientsAllowTLSCacheGC 1.36 BETA true
ClientsPreferCBOR 1.35 ALPHA false
CloudControllerManagerWatchBasedRoutesReconciliation 1.35 ALPHA false
CloudControllerManagerWebhook 1.35 ALPHA false
ClusterTrustBundle 1.35 BETA false; 1.37 GA true
ClusterTrustBundleProjection 1.35 BETA false; 1.37 GA true
ComponentFlagz 1.35 ALPHA false; 1.36 BETA true
ComponentStatusz 1.35 ALPHA false; 1.36 BETA true
CompositePodGroup 1.37 ALPHA false
ConcurrentWatchObjectDecode 1.35 BETA false; 1.37 BETA true
ConsistentListFromCache 1.35 GA true locked; 1.37 removed
ConsistentListFromCacheSkipTimeoutFallback 1.37 ALPHA false
ConstrainedImpersonation 1.35 ALPHA false; 1.36 BETA true
ContainerCheckpoint 1.35 BETA true
ContainerRestartRules 1.35 BETA true
ContainerStopSignals 1.35 ALPHA false
ContextualLogging 1.35 BETA true
CoordinatedLeaderElection 1.35 BETA false
CrossNamespaceVolumeDataSource 1.35 ALPHA false
CustomCPUCFSQuotaPeriod 1.35 ALPHA false; 1.36 GA true
CustomResourceFieldSelectors 1.35 GA true locked; 1.38 removed
DRAAdminAccess 1.35 BETA true; 1.36 GA true locked
DRAConsumableCapacity 1.35 ALPHA false; 1.36 BETA true
DRADerivedAttributes 1.37 ALPHA false
DRADeviceBindingConditions 1.35 ALPHA false; 1.36 BETA true
DRADeviceCompatibilityGroups 1.37 ALPHA false
DRADeviceTaintRules 1.35 ALPHA false; 1.36 BETA false; 1.37 GA true; 1.38 GA true locked
DRADeviceTaints 1.35 ALPHA false; 1.36 BETA true; 1.37 GA true; 1.38 GA true locked
DRAExtendedResource 1.35 ALPHA false; 1.36 BETA true; 1.37 GA true locked
DRAFractionalCapacityRange 1.37 BETA false; 1.37 BETA true beside 1.37
DRAListTypeAttributes 1.36 ALPHA false
DRANodeAllocatableResources 1.36 ALPHA false
DRAOptionalNodeOperations 1.37 ALPHA false
DRAPartitionableDevices 1.35 ALPHA false; 1.36 BETA true
DRAPartitionableDevicesType 1.37 ALPHA false
DRAPrioritizedList 1.35 BETA true; 1.36 GA true; 1.37 GA true locked
DRAResourceClaimDeviceStatus 1.35 BETA true; 1.37 GA true locked
DRAResourceClaimGranularStatusAuthorization 1.36 BETA true
DRAResourcePoolStatus 1.36 ALPHA false
DRASchedulerFilterTimeout 1.35 BETA true
DRAWorkloadResourceClaims 1.36 ALPHA false; 1.37 BETA false
DeclarativeValidation 1.35 BETA true; 1.36 GA true locked
DeclarativeValidationBeta 1.36 BETA true
DeclarativeValidationTakeover 1.35 BETA false; 1.36 DEPRECATED false; 1.37 DEPRECATED false locked
DefaultPodSysctls 1.37 ALPHA false
DeploymentReplicaSetTerminatingReplicas 1.35 BETA true
DetectCacheInconsistency 1.35 BETA true
DisableAllocatorDualWrite 1.35 GA true locked; 1.38 removed
DisableCPUQuotaWithExclusiveCPUs 1.35 BETA true; 1.36 DEPRECATED true; 1.37 DEPRECATED true locked
DisableNodeKubeProxyVersion 1.35 DEPRECATED true; 1.36 DEPRECATED true locked
DynamicResourceAllocation 1.35 GA true locked; 1.38 removed
EmptyDirVolumeMode 1.37 ALPHA false
EnvFiles 1.35 BETA true; 1.38 GA true locked
EtcdRangeStream 1.37 BETA true
EventedPLEG 1.35 ALPHA false
EvictionRequestAPI 1.37 ALPHA false
ExcludeAdmissionWebhookVirtualResources 1.37 BETA true
ExecProbeTimeout 1.35 GA true locked
ExtendWebSocketsToKubelet 1.36 BETA true
ExternalServiceAccountTokenSigner 1.35 BETA true; 1.36 GA true locked
GRPCContainerProbeTLS 1.37 ALPHA false
GangScheduling 1.35 ALPHA false; 1.37 removed
GenericWorkload 1.35 ALPHA false; 1.37 BETA false
GitRepoVolumeDriver 1.35 DEPRECATED false; 1.36 DEPRECATED false locked
GracefulNodeShutdown 1.35 BETA true
GracefulNodeShutdownBasedOnPodPriority 1.35 BETA true
H2CContainerProbe 1.37 ALPHA false
HPAConfigurableTolerance 1.35 BETA true; 1.37 GA true locked
HPAGeneration 1.37 BETA true; 1.38 GA true locked
HPAOptimizedSelectorStore 1.37 BETA true
HPAScaleToZero 1.35 ALPHA false; 1.37 BETA true
HonorPVReclaimPolicy 1.35 GA true locked; 1.36 removed
HostnameOverride 1.35 BETA true; 1.37 GA true locked
HugepageAwareEviction 1.37 BETA true
ImageMaximumGCAge 1.35 GA true locked
ImageVolume 1.35 BETA true; 1.36 GA true locked
ImageVolumeWithDigest 1.36 ALPHA false
InOrderInformers 1.35 BETA true; 1.36 GA true locked
InOrderInformersBatchProcess 1.35 BETA true
InPlacePodLevelResourcesVerticalScaling 1.35 ALPHA false; 1.36 BETA true
InPlacePodVerticalScaling 1.35 GA true locked
InPlacePodVerticalScalingAllocatedStatus 1.35 DEPRECATED false; 1.36 removed
InPlacePodVerticalScalingExclusiveCPUs 1.35 ALPHA false
InPlacePodVerticalScalingExclusiveMemory 1.35 ALPHA false
InPlacePodVerticalScalingInitContainers 1.36 BETA true; 1.37 GA true locked
InPlacePodVerticalScalingMemoryBackedVolumes 1.37 ALPHA false
InPlacePodVerticalScalingSchedulerPreemption 1.37 ALPHA false
InTreePluginPortworxUnregister 1.35 ALPHA false; 1.36 removed
InformerResourceVersion 1.35 GA true
InterPodAffinityHostnameFastPath 1.37 ALPHA false
JobBackoffLimitPerIndex 1.35 GA true locked; 1.37 removed
JobManagedBy 1.35 GA true locked; 1.38 removed
JobPodReplacementPolicy 1.35 GA true locked; 1.37 removed
JobSuccessPolicy 1.35 GA true locked; 1.37 removed
KMSv1 1.35 DEPRECATED false
KubeProxyIPVS 1.37 DEPRECATED true
KubeProxyNFTablesLocalhostNodePorts 1.37 ALPHA false; 1.38 BETA true
KubeletAllocatedPodsEndpoint 1.37 ALPHA false
KubeletCgroupDriverFromCRI 1.35 GA true locked
KubeletCrashLoopBackOffMax 1.35 BETA true
KubeletEnsureSecretPulledImages 1.35 BETA true
KubeletFineGrainedAuthz 1.35 BETA true; 1.36 GA true locked
KubeletInUserNamespace 1.35 ALPHA false; 1.37 BETA true
KubeletPSI 1.35 BETA true; 1.36 GA true locked
KubeletPodResourcesDynamicResources 1.35 BETA true; 1.36 GA true locked
KubeletPodResourcesGet 1.35 BETA true; 1.36 GA true locked
KubeletPodResourcesListUseActivePods 1.35 DEPRECATED true
KubeletRegistrationGetOnExistsOnly 1.35 DEPRECATED false
KubeletSeparateDiskGC 1.35 BETA true
KubeletServiceAccountTokenForCredentialProviders 1.35 BETA true
KubeletTracing 1.35 GA true locked; 1.38 removed
ListFromCacheSnapshot 1.35 BETA true
LocalStorageCapacityIsolationFSQuotaMonitoring 1.35 BETA false
LogarithmicScaleDown 1.35 GA true locked; 1.37 removed
LoggingAlphaOptions 1.35 ALPHA false
LoggingBetaOptions 1.35 BETA true
ManagedFieldsOptOut 1.38 ALPHA false
ManifestBasedAdmissionControlConfig 1.36 ALPHA false; 1.37 BETA true
MatchLabelKeysInPodAffinity 1.35 GA true locked; 1.38 removed
MatchLabelKeysInPodTopologySpread 1.35 BETA true
MatchLabelKeysInPodTopologySpreadSelectorMerge 1.35 BETA true
MaxUnavailableStatefulSet 1.35 BETA false; 1.37 BETA true
MemoryManager 1.35 GA true locked; 1.36 removed
MemoryQoS 1.35 ALPHA false; 1.37 BETA true
MultiCIDRServiceAllocator 1.35 GA true locked; 1.38 removed
MutableCSINodeAllocatableCount 1.35 BETA true; 1.36 GA true locked
MutablePVNodeAffinity 1.35 ALPHA false
MutablePodResourcesForSuspendedJobs 1.35 ALPHA false; 1.36 BETA true
MutableSchedulingDirectivesForSuspendedJobs 1.35 ALPHA false; 1.36 BETA true
MutatingAdmissionPolicy 1.35 BETA false; 1.36 GA true
NFTablesNetlink 1.37 BETA true
NFTablesProxyMode 1.35 GA true locked; 1.38 removed
NativeHistograms 1.36 ALPHA false; 1.37 BETA true
NodeControllerLeaseCircuitBreaker 1.37 BETA true
NodeDeclaredFeatures 1.35 ALPHA false; 1.36 BETA true; 1.37 GA true locked
NodeInclusionPolicyInPodTopologySpread 1.35 GA true locked
NodeLifecycleConditions 1.37 ALPHA false
NodeLogQuery 1.35 BETA true; 1.36 GA true locked
NodeSwap 1.35 GA true locked
NominatedNodeNameForExpectation 1.35 BETA true
OpenAPIEnums 1.35 BETA true
OpportunisticBatching 1.35 BETA true
OrderedNamespaceDeletion 1.35 GA true locked; 1.37 removed
PLEGOnDemandRelist 1.36 BETA true; 1.37 GA true locked
PersistentVolumeClaimUnusedSinceTime 1.36 ALPHA false; 1.37 BETA true
PodAndContainerStatsFromCRI 1.35 ALPHA false; 1.37 BETA false
PodCertificateRequest 1.35 BETA false; 1.37 GA true
PodDeletionCost 1.35 BETA true
PodGroupPreemptionPolicy 1.37 ALPHA false
PodLevelResourceManagers 1.36 ALPHA false; 1.37 BETA false
PodLevelResources 1.35 BETA true
PodLevelResourcesFixDefaulting 1.37 BETA true
PodLevelResourcesFixKubeletQOSClass 1.37 BETA true
PodLifecycleSleepAction 1.35 GA true locked; 1.37 removed
PodLifecycleSleepActionAllowZero 1.35 GA true locked; 1.37 removed
PodLogsQuerySplitStreams 1.35 ALPHA false
PodObservedGenerationTracking 1.35 GA true locked
PodReadyToStartContainersCondition 1.35 BETA true; 1.37 GA true locked
PodSchedulingReadiness 1.35 GA true locked; 1.38 removed
PodTopologyLabelsAdmission 1.35 BETA true
PodsAPI 1.36 ALPHA false; 1.37 BETA true
PortForwardWebsockets 1.35 BETA true
PreferSameTrafficDistribution 1.35 GA true locked; 1.38 removed
PreventStaticPodAPIReferences 1.35 BETA true; 1.37 removed
ProcMountType 1.35 BETA true; 1.36 GA true locked
QOSReserved 1.35 ALPHA false
RecoverVolumeExpansionFailure 1.35 GA true locked
RecursiveReadOnlyMounts 1.35 GA true locked
ReduceDefaultCrashLoopBackOffDecay 1.35 ALPHA false
RelaxedDNSSearchValidation 1.35 GA true locked; 1.37 removed
RelaxedEnvironmentVariableValidation 1.35 GA true locked
RelaxedServiceNameValidation 1.35 ALPHA false; 1.36 BETA true; 1.37 GA true locked
ReloadKubeletClientCAFile 1.36 BETA true
ReloadKubeletServerCertificateFile 1.35 BETA true
RemoteRequestHeaderUID 1.35 BETA true
ResilientWatchCacheInitialization 1.35 GA true locked; 1.37 removed
ResourceHealthStatus 1.35 ALPHA false; 1.36 BETA true
ResourceHealthStatusMessage 1.36 BETA true
RestartAllContainersOnContainerExits 1.35 ALPHA false; 1.36 BETA true
RetryGenerateName 1.35 GA true locked; 1.37 removed
RotateKubeletServerCertificate 1.35 BETA true
RuntimeClassInImageCriApi 1.35 ALPHA false
SELinuxChangePolicy 1.35 BETA true; 1.36 GA true locked
SELinuxMount 1.35 BETA false; 1.37 GA true
SELinuxMountReadWriteOncePod 1.35 BETA true; 1.36 GA true locked
SchedulerAsyncAPICalls 1.35 BETA false
SchedulerAsyncPreemption 1.35 BETA true
SchedulerPopFromBackoffQ 1.35 BETA true
SchedulerPreQueueingHints 1.37 ALPHA false
SchedulerQueueingHints 1.35 GA true locked; 1.37 removed
SeparateCacheWatchRPC 1.35 DEPRECATED false; 1.36 DEPRECATED false locked
SeparateTaintEvictionController 1.35 GA true locked; 1.38 removed
ServiceAccountNodeAudienceRestriction 1.35 BETA true
ServiceAccountTokenJTI 1.35 GA true locked
ServiceAccountTokenNodeBinding 1.35 GA true locked
ServiceAccountTokenNodeBindingValidation 1.35 GA true locked
ServiceAccountTokenPodNodeInfo 1.35 GA true locked; 1.38 removed
ServiceCIDRStatusFieldWiping 1.36 DEPRECATED true
ServiceTrafficDistribution 1.35 GA true locked; 1.36 removed
ShardedListAndWatch 1.36 ALPHA false
SidecarContainers 1.35 GA true locked; 1.37 removed
SizeBasedListCostEstimate 1.35 BETA true
StaleControllerConsistencyDaemonSet 1.36 BETA true
StaleControllerConsistencyHPA 1.37 BETA true
StaleControllerConsistencyJob 1.36 BETA true
StaleControllerConsistencyReplicaSet 1.36 BETA true
StaleControllerConsistencyStatefulSet 1.36 BETA true
StatefulSetRecreateStrategy 1.37 ALPHA false
StatefulSetSemanticRevisionComparison 1.35 BETA true
StorageCapacityScoring 1.35 ALPHA false; 1.37 BETA true
StorageNamespaceIndex 1.35 DEPRECATED true
StorageVersionAPI 1.35 ALPHA false
StorageVersionHash 1.35 BETA true
StorageVersionMigrator 1.35 BETA false; 1.37 GA true
StreamingCollectionEncodingToJSON 1.35 GA true locked; 1.37 removed
StreamingCollectionEncodingToProtobuf 1.35 GA true locked; 1.37 removed
StrictIPCIDRValidation 1.35 ALPHA false; 1.36 BETA true; 1.38 GA true locked
StructuredAuthenticationConfiguration 1.35 GA true locked; 1.37 removed
StructuredAuthenticationConfigurationEgressSelector 1.35 BETA true
StructuredAuthenticationConfigurationJWKSMetrics 1.35 BETA true
StructuredAuthorizationConfiguration 1.35 GA true locked; 1.36 removed
SupplementalGroupsPolicy 1.35 GA true locked
SystemdWatchdog 1.35 GA true locked
TaintTolerationComparisonOperators 1.35 ALPHA false
TokenRequestServiceAccountUIDValidation 1.35 BETA true
TopologyAwareHints 1.35 GA true locked; 1.36 removed
TopologyAwareWorkloadScheduling 1.36 ALPHA false
TopologyManagerPolicyAlphaOptions 1.35 ALPHA false
TopologyManagerPolicyBetaOptions 1.35 BETA true
TopologyManagerPolicyOptions 1.35 GA true; 1.36 GA true locked
TranslateStreamCloseWebsocketRequests 1.35 BETA true
UnauthenticatedHTTP2DOSMitigation 1.35 BETA true
UnknownVersionInteroperabilityProxy 1.35 ALPHA false; 1.36 BETA true
UnlockWhileProcessingFIFO 1.36 BETA true
UserNamespacesHostNetworkSupport 1.35 ALPHA false
UserNamespacesSupport 1.35 BETA true; 1.36 GA true locked
VolumeAttributesClass 1.35 GA true; 1.36 GA true locked
VolumeBindMountOptions 1.37 ALPHA false
VolumeLimitScaling 1.35 ALPHA false; 1.37 BETA true
WatchCacheInitializationPostStartHook 1.35 BETA false; 1.36 BETA true; 1.37 GA true locked
WatchFromStorageWithoutResourceVersion 1.35 DEPRECATED false locked; 1.36 removed
WatchList 1.35 BETA true
WatchListClient 1.35 BETA true
WatchListCompression 1.37 BETA true
WebhookRoundTripLoadBalancing 1.37 BETA true
WinDSR 1.35 GA true locked
WinOverlay 1.35 GA true locked
WindowsCPUAndMemoryAffinity 1.35 ALPHA false; 1.38 BETA true
WindowsGracefulNodeShutdown 1.35 BETA true
WindowsHostNetwork 1.35 DEPRECATED false; 1.38 removed
WorkloadAwarePreemption 1.36 ALPHA false; 1.37 removed
WorkloadWithJob 1.36 ALPHA false
"""

# The gates that must be on wherever the first gate of the line is, since a version. An indented
# line goes on with the one before.
DEPENDENCIES = """
AuthorizeNodeWithSelectors 1.35 AuthorizeWithSelectors
ClusterTrustBundleProjection 1.35 ClusterTrustBundle
CompositePodGroup 1.37 GenericWorkload TopologyAwareWorkloadScheduling
DRAAdminAccess 1.35 DynamicResourceAllocation
DRAConsumableCapacity 1.35 DynamicResourceAllocation
DRADerivedAttributes 1.37 DynamicResourceAllocation
DRADeviceBindingConditions 1.35 DRAResourceClaimDeviceStatus DynamicResourceAllocation
DRADeviceCompatibilityGroups 1.37 DRAPartitionableDevices DynamicResourceAllocation
DRADeviceTaintRules 1.35 DRADeviceTaints
DRADeviceTaints 1.35 DynamicResourceAllocation
DRAExtendedResource 1.35 DynamicResourceAllocation
DRAFractionalCapacityRange 1.37 DRAConsumableCapacity
DRAListTypeAttributes 1.36 DynamicResourceAllocation
DRANodeAllocatableResources 1.36 DynamicResourceAllocation
DRAOptionalNodeOperations 1.37 DynamicResourceAllocation NodeDeclaredFeatures
DRAPartitionableDevices 1.35 DynamicResourceAllocation
DRAPartitionableDevicesType 1.37 DRAPartitionableDevices DRAResourcePoolStatus
    DynamicResourceAllocation
DRAPrioritizedList 1.35 DynamicResourceAllocation
DRAResourceClaimGranularStatusAuthorization 1.36 DRAResourceClaimDeviceStatus
    DynamicResourceAllocation
DRAResourcePoolStatus 1.36 DynamicResourceAllocation
DRASchedulerFilterTimeout 1.35 DynamicResourceAllocation
DRAWorkloadResourceClaims 1.36 DynamicResourceAllocation GenericWorkload
DeclarativeValidationBeta 1.36 DeclarativeValidation
DeclarativeValidationTakeover 1.35 DeclarativeValidation
DisableAllocatorDualWrite 1.35 MultiCIDRServiceAllocator
EventedPLEG 1.37 PLEGOnDemandRelist
ExtendWebSocketsToKubelet 1.36 NodeDeclaredFeatures
GangScheduling 1.35 GenericWorkload
GracefulNodeShutdownBasedOnPodPriority 1.35 GracefulNodeShutdown
H2CContainerProbe 1.37 NodeDeclaredFeatures
ImageVolumeWithDigest 1.36 ImageVolume
InPlacePodLevelResourcesVerticalScaling 1.35 InPlacePodVerticalScaling NodeDeclaredFeatures
    PodLevelResources
InPlacePodVerticalScalingAllocatedStatus 1.35 InPlacePodVerticalScaling; 1.36
InPlacePodVerticalScalingExclusiveCPUs 1.35 InPlacePodVerticalScaling
InPlacePodVerticalScalingExclusiveMemory 1.35 InPlacePodVerticalScaling MemoryManager; 1.36
    InPlacePodVerticalScaling
InPlacePodVerticalScalingInitContainers 1.36 InPlacePodVerticalScaling NodeDeclaredFeatures
InPlacePodVerticalScalingMemoryBackedVolumes 1.37 InPlacePodVerticalScaling NodeDeclaredFeatures
InPlacePodVerticalScalingSchedulerPreemption 1.37 InPlacePodVerticalScaling
KubeletAllocatedPodsEndpoint 1.37 InPlacePodVerticalScaling
MatchLabelKeysInPodTopologySpreadSelectorMerge 1.35 MatchLabelKeysInPodTopologySpread
NodeControllerLeaseCircuitBreaker 1.37 AtomicFIFO
PodCertificateRequest 1.35 AuthorizeNodeWithSelectors; 1.37
PodGroupPreemptionPolicy 1.37 GenericWorkload
PodLevelResourceManagers 1.36 PodLevelResources
PodLevelResourcesFixDefaulting 1.37 PodLevelResources
PodLevelResourcesFixKubeletQOSClass 1.37 PodLevelResources
PodLifecycleSleepActionAllowZero 1.35 PodLifecycleSleepAction
ProcMountType 1.35 UserNamespacesSupport
ResourceHealthStatus 1.35 DynamicResourceAllocation
ResourceHealthStatusMessage 1.36 ResourceHealthStatus
RestartAllContainersOnContainerExits 1.35 ContainerRestartRules NodeDeclaredFeatures
ServiceAccountTokenNodeBinding 1.35 ServiceAccountTokenNodeBindingValidation
StaleControllerConsistencyDaemonSet 1.36 AtomicFIFO
StaleControllerConsistencyHPA 1.37 AtomicFIFO
StaleControllerConsistencyJob 1.36 AtomicFIFO
StaleControllerConsistencyReplicaSet 1.36 AtomicFIFO
StaleControllerConsistencyStatefulSet 1.36 AtomicFIFO
StorageVersionAPI 1.35 APIServerIdentity
StructuredAuthenticationConfigurationEgressSelector 1.35 StructuredAuthenticationConfiguration; 1.37
StructuredAuthenticationConfigurationJWKSMetrics 1.35 StructuredAuthenticationConfiguration; 1.37
TopologyAwareWorkloadScheduling 1.36 GenericWorkload
UnknownVersionInteroperabilityProxy 1.35 APIServerIdentity
UserNamespacesHostNetworkSupport 1.35 UserNamespacesSupport; 1.36 NodeDeclaredFeatures
    UserNamespacesSupport
WindowsCPUAndMemoryAffinity 1.35 MemoryManager; 1.36
WindowsGracefulNodeShutdown 1.35 GracefulNodeShutdown
WorkloadAwarePreemption 1.36 GangScheduling
WorkloadWithJob 1.36 GenericWorkload
"""
