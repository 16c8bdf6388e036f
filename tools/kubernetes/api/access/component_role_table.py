"""The roles and bindings of nodes, controllers and other components of Kubernetes, in the form that
first_roles reads.
"""

TABLE = """
ClusterRole system:certificates.k8s.io:certificatesigningrequests:nodeclient
  create certificates.k8s.io certificatesigningrequests/nodeclient
ClusterRole system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
  create certificates.k8s.io certificatesigningrequests/selfnodeclient
ClusterRole system:certificates.k8s.io:kube-apiserver-client-approver
  approve certificates.k8s.io signers kubernetes.io/kube-apiserver-client
ClusterRole system:certificates.k8s.io:kube-apiserver-client-kubelet-approver
  approve certificates.k8s.io signers kubernetes.io/kube-apiserver-client-kubelet
ClusterRole system:certificates.k8s.io:kubelet-serving-approver
  approve certificates.k8s.io signers kubernetes.io/kubelet-serving
ClusterRole system:certificates.k8s.io:legacy-unknown-approver
  approve certificates.k8s.io signers kubernetes.io/legacy-unknown
ClusterRole system:heapster
  get,list,watch core events,namespaces,nodes,pods
  get,list,watch extensions deployments
ClusterRole system:kube-aggregator
  get,list,watch core endpoints,services
ClusterRole system:kube-controller-manager
  create,patch,update core,events.k8s.io events
  create coordination.k8s.io leases
  get,update coordination.k8s.io leases kube-controller-manager
  create core secrets,serviceaccounts
  delete core secrets
  get core configmaps,namespaces,secrets,serviceaccounts
  update core secrets,serviceaccounts
  create authentication.k8s.io tokenreviews
  create authorization.k8s.io subjectaccessreviews
  list,watch * *
  create core serviceaccounts/token
ClusterRole system:kube-dns
  list,watch core endpoints,services
ClusterRole system:kubelet-api-admin
  get,list,watch core nodes
  proxy core nodes
  * core nodes/log,nodes/metrics,nodes/proxy,nodes/stats
  * core nodes/configz,nodes/healthz,nodes/pods
ClusterRole system:monitoring
  get url /flagz,/healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*,
      /statusz
  get core nodes/metrics
ClusterRole system:node
  create authentication.k8s.io tokenreviews
  create authorization.k8s.io localsubjectaccessreviews,subjectaccessreviews
  get,list,watch core services
  create,get,list,watch core nodes
  patch,update core nodes/status
  patch,update core nodes
  create,patch,update core,events.k8s.io events
  get,list,watch core pods
  create,delete core pods
  patch,update core pods/status
  create core pods/eviction
  get,list,watch core configmaps,secrets
  get core persistentvolumeclaims,persistentvolumes
  get core endpoints
  create,get,list,watch certificates.k8s.io certificatesigningrequests
  create,delete,get,patch,update coordination.k8s.io leases
  get storage.k8s.io volumeattachments
  create core serviceaccounts/token
  get,patch,update core persistentvolumeclaims/status
  get,list,watch storage.k8s.io csidrivers
  create,delete,get,patch,update storage.k8s.io csinodes
  get,list,watch node.k8s.io runtimeclasses
  get resource.k8s.io resourceclaims
  deletecollection resource.k8s.io resourceslices
  get core serviceaccounts
ClusterRole system:node-bootstrapper
  create,get,list,watch certificates.k8s.io certificatesigningrequests
ClusterRole system:node-problem-detector
  get core nodes
  patch core nodes/status
  create,patch,update core,events.k8s.io events
ClusterRole system:node-proxier
  list,watch core endpoints,services
  get,list,watch core nodes
  create,patch,update core,events.k8s.io events
  list,watch networking.k8s.io servicecidrs
  list,watch discovery.k8s.io endpointslices
ClusterRole system:persistent-volume-provisioner
  create,delete,get,list,watch core persistentvolumes
  get,list,update,watch core persistentvolumeclaims
  get,list,watch storage.k8s.io storageclasses
  watch core events
  create,patch,update core,events.k8s.io events
ClusterRole system:service-account-issuer-discovery
  get url /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,
      /openid/v1/jwks/
ClusterRoleBinding system:kube-controller-manager ClusterRole:system:kube-controller-manager
      User:system:kube-controller-manager
ClusterRoleBinding system:kube-dns ClusterRole:system:kube-dns ServiceAccount:kube-system/kube-dns
ClusterRoleBinding system:monitoring ClusterRole:system:monitoring Group:system:monitoring
ClusterRoleBinding system:node ClusterRole:system:node
ClusterRoleBinding system:node-proxier ClusterRole:system:node-proxier User:system:kube-proxy
ClusterRoleBinding system:service-account-issuer-discovery
      ClusterRole:system:service-account-issuer-discovery Group:system:serviceaccounts
Role kube-public/system:controller:bootstrap-signer
  get,list,watch core configmaps
  update core configmaps cluster-info
  create,patch,update core,events.k8s.io events
Role kube-system/system::leader-locking-kube-controller-manager
  create,get,list,update,watch coordination.k8s.io leases
  create,get,list,update,watch coordination.k8s.io leasecandidates
Role kube-system/system:controller:bootstrap-signer
  get,list,watch core secrets
Role kube-system/system:controller:cloud-provider
  create,get,list,watch core configmaps
Role kube-system/system:controller:token-cleaner
  delete,get,list,watch core secrets
  create,patch,update core,events.k8s.io events
RoleBinding kube-public/system:controller:bootstrap-signer Role:system:controller:bootstrap-signer
      ServiceAccount:kube-system/bootstrap-signer
RoleBinding kube-system/system::leader-locking-kube-controller-manager
      Role:system::leader-locking-kube-controller-manager User:system:kube-controller-manager
      ServiceAccount:kube-system/kube-controller-manager
      ServiceAccount:kube-system/leader-election-controller
RoleBinding kube-system/system:controller:bootstrap-signer Role:system:controller:bootstrap-signer
      ServiceAccount:kube-system/bootstrap-signer
RoleBinding kube-system/system:controller:cloud-provider Role:system:controller:cloud-provider
      ServiceAccount:kube-system/cloud-provider
RoleBinding kube-system/system:controller:token-cleaner Role:system:controller:token-cleaner
      ServiceAccount:kube-system/token-cleaner
ClusterRole system:controller:attachdetach-controller
  list,watch core persistentvolumeclaims,persistentvolumes
  get,list,watch core nodes
  patch,update core nodes/status
  list,watch core pods
  create,patch,update core,events.k8s.io events
  create,delete,get,list,watch storage.k8s.io volumeattachments
  get,list,watch storage.k8s.io csidrivers
  get,list,watch storage.k8s.io csinodes
ClusterRole system:controller:certificate-controller
  delete,get,list,watch certificates.k8s.io certificatesigningrequests
  update certificates.k8s.io certificatesigningrequests/approval,certificatesigningrequests/status
  approve certificates.k8s.io signers kubernetes.io/kube-apiserver-client-kubelet
  sign certificates.k8s.io signers kubernetes.io/kube-apiserver-client,
      kubernetes.io/kube-apiserver-client-kubelet,kubernetes.io/kubelet-serving,
      kubernetes.io/legacy-unknown
  create authorization.k8s.io subjectaccessreviews
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:clusterrole-aggregation-controller
  escalate,get,list,patch,update,watch rbac.authorization.k8s.io clusterroles
ClusterRole system:controller:cronjob-controller
  get,list,update,watch batch cronjobs
  create,delete,get,list,patch,update,watch batch jobs
  update batch cronjobs/status
  update batch cronjobs/finalizers
  delete,list,watch core pods
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:daemon-set-controller
  get,list,watch apps,extensions daemonsets
  update apps,extensions daemonsets/status
  update apps,extensions daemonsets/finalizers
  list,watch core nodes
  create,delete,list,patch,watch core pods
  create core pods/binding
  create,delete,get,list,patch,update,watch apps controllerrevisions
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:deployment-controller
  get,list,update,watch apps,extensions deployments
  update apps,extensions deployments/status
  update apps,extensions deployments/finalizers
  create,delete,get,list,patch,update,watch apps,extensions replicasets
  get,list,update,watch core pods
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:device-taint-eviction-controller
  delete,get,list,watch core pods
  patch,update core pods/status
  get,list,watch resource.k8s.io resourceclaims
  get,list,watch resource.k8s.io resourceslices
  get,list,watch resource.k8s.io deviceclasses
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:disruption-controller
  get,list,watch apps,extensions deployments
  get,list,watch apps,extensions replicasets
  get,list,watch core replicationcontrollers
  get,list,watch policy poddisruptionbudgets
  get,list,watch apps statefulsets
  update policy poddisruptionbudgets/status
  patch,update core pods/status
  get * */scale
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:endpoint-controller
  get,list,watch core pods,services
  create,delete,get,list,update,watch core endpoints
  create core endpoints/restricted
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:endpointslice-controller
  get,list,watch core nodes,pods,services
  update core services/finalizers
  create,delete,get,list,update,watch discovery.k8s.io endpointslices
  create discovery.k8s.io endpointslices/restricted
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:endpointslicemirroring-controller
  get,list,watch core endpoints,services
  update core services/finalizers
  update core endpoints/finalizers
  create,delete,get,list,update,watch discovery.k8s.io endpointslices
  create discovery.k8s.io endpointslices/restricted
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:ephemeral-volume-controller
  get,list,watch core pods
  update core pods/finalizers
  create,get,list,watch core persistentvolumeclaims
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:expand-controller
  get,list,patch,update,watch core persistentvolumes
  patch,update core persistentvolumeclaims/status
  get,list,watch core persistentvolumeclaims
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:generic-garbage-collector
  delete,get,list,patch,update,watch * *
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:horizontal-pod-autoscaler
  get,list,watch autoscaling horizontalpodautoscalers
  update autoscaling horizontalpodautoscalers/status
  get,update * */scale
  list,watch core pods
  list,watch metrics.k8s.io pods
  get,list,watch custom.metrics.k8s.io *
  get,list,watch external.metrics.k8s.io *
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:job-controller
  get,list,patch,update,watch batch jobs
  update batch jobs/status
  update batch jobs/finalizers
  create,delete,list,patch,watch core pods
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:legacy-service-account-token-cleaner
  get core configmaps kube-apiserver-legacy-service-account-token-tracking
  delete,patch core secrets
ClusterRole system:controller:namespace-controller
  delete,get,list,watch core namespaces
  update core namespaces/finalize,namespaces/status
  delete,deletecollection,get,list,watch * *
ClusterRole system:controller:node-controller
  delete,get,list,patch,update,watch core nodes
  patch,update core nodes/status
  patch,update core pods/status
  delete,get,list,watch core pods
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:persistent-volume-binder
  create,delete,get,list,update,watch core persistentvolumes
  update core persistentvolumes/status
  get,list,update,watch core persistentvolumeclaims
  update core persistentvolumeclaims/status
  create,delete,get,list,watch core pods
  get,list,watch storage.k8s.io storageclasses
  list,watch core nodes
  create,patch,update core,events.k8s.io events
  watch core events
ClusterRole system:controller:pod-garbage-collector
  delete,list,watch core pods
  get,list,watch core nodes
  patch core pods/status
ClusterRole system:controller:pv-protection-controller
  get,list,update,watch core persistentvolumes
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:pvc-protection-controller
  get,list,update,watch core persistentvolumeclaims
  update core persistentvolumeclaims/status
  get,list,watch core pods
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:replicaset-controller
  get,list,update,watch apps,extensions replicasets
  update apps,extensions replicasets/status
  update apps,extensions replicasets/finalizers
  create,delete,list,patch,watch core pods
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:replication-controller
  get,list,update,watch core replicationcontrollers
  update core replicationcontrollers/status
  update core replicationcontrollers/finalizers
  create,delete,list,patch,watch core pods
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:resource-claim-controller
  get,list,watch core pods
  update core pods/finalizers
  create,delete,get,list,watch resource.k8s.io resourceclaims
  patch,update resource.k8s.io resourceclaims,resourceclaims/status
  patch,update core pods/status
  create,patch,update core,events.k8s.io events
  patch,update resource.k8s.io resourceclaims/binding
ClusterRole system:controller:resourcequota-controller
  list,watch * *
  update core resourcequotas/status
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:root-ca-cert-publisher
  create,update core configmaps
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:route-controller
  list,watch core nodes
  patch core nodes/status
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:selinux-warning-controller
  create,patch,update core,events.k8s.io events
  get,list,watch core persistentvolumes
  get,list,watch core persistentvolumeclaims
  get,list,watch core pods
  get,list,watch storage.k8s.io csidrivers
ClusterRole system:controller:service-account-controller
  create core serviceaccounts
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:service-ca-cert-publisher
  create,update core configmaps
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:service-cidrs-controller
  get,list,patch,update,watch networking.k8s.io servicecidrs
  patch,update networking.k8s.io servicecidrs/finalizers
  patch,update networking.k8s.io servicecidrs/status
  get,list,watch networking.k8s.io ipaddresses
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:service-controller
  get,list,watch core services
  patch,update core services/status
  list,watch core nodes
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:statefulset-controller
  list,watch core pods
  get,list,watch apps statefulsets
  update apps statefulsets/status
  update apps statefulsets/finalizers
  create,delete,get,patch,update core pods
  create,delete,get,list,patch,update,watch apps controllerrevisions
  create,get,list,watch core persistentvolumeclaims
  delete,update core persistentvolumeclaims
  update core pods/finalizers
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:ttl-after-finished-controller
  delete,get,list,watch batch jobs
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:ttl-controller
  list,patch,update,watch core nodes
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:validatingadmissionpolicy-status-controller
  get,list,watch admissionregistration.k8s.io validatingadmissionpolicies
  get,patch,update admissionregistration.k8s.io validatingadmissionpolicies/status
  create,patch,update core,events.k8s.io events
ClusterRole system:controller:volumeattributesclass-protection-controller
  get,list,watch core persistentvolumeclaims
  get,list,watch core persistentvolumes
  get,list,update,watch storage.k8s.io volumeattributesclasses
  create,patch,update core,events.k8s.io events
ClusterRoleBinding system:controller:attachdetach-controller
      ClusterRole:system:controller:attachdetach-controller
      ServiceAccount:kube-system/attachdetach-controller
ClusterRoleBinding system:controller:certificate-controller
      ClusterRole:system:controller:certificate-controller
      ServiceAccount:kube-system/certificate-controller
ClusterRoleBinding system:controller:clusterrole-aggregation-controller
      ClusterRole:system:controller:clusterrole-aggregation-controller
      ServiceAccount:kube-system/clusterrole-aggregation-controller
ClusterRoleBinding system:controller:cronjob-controller
      ClusterRole:system:controller:cronjob-controller ServiceAccount:kube-system/cronjob-controller
ClusterRoleBinding system:controller:daemon-set-controller
      ClusterRole:system:controller:daemon-set-controller
      ServiceAccount:kube-system/daemon-set-controller
ClusterRoleBinding system:controller:deployment-controller
      ClusterRole:system:controller:deployment-controller
      ServiceAccount:kube-system/deployment-controller
ClusterRoleBinding system:controller:device-taint-eviction-controller
      ClusterRole:system:controller:device-taint-eviction-controller
      ServiceAccount:kube-system/device-taint-eviction-controller
ClusterRoleBinding system:controller:disruption-controller
      ClusterRole:system:controller:disruption-controller
      ServiceAccount:kube-system/disruption-controller
ClusterRoleBinding system:controller:endpoint-controller
      ClusterRole:system:controller:endpoint-controller
      ServiceAccount:kube-system/endpoint-controller
ClusterRoleBinding system:controller:endpointslice-controller
      ClusterRole:system:controller:endpointslice-controller
      ServiceAccount:kube-system/endpointslice-controller
ClusterRoleBinding system:controller:endpointslicemirroring-controller
      ClusterRole:system:controller:endpointslicemirroring-controller
      ServiceAccount:kube-system/endpointslicemirroring-controller
ClusterRoleBinding system:controller:ephemeral-volume-controller
      ClusterRole:system:controller:ephemeral-volume-controller
      ServiceAccount:kube-system/ephemeral-volume-controller
ClusterRoleBinding system:controller:expand-controller
      ClusterRole:system:controller:expand-controller ServiceAccount:kube-system/expand-controller
ClusterRoleBinding system:controller:generic-garbage-collector
      ClusterRole:system:controller:generic-garbage-collector
      ServiceAccount:kube-system/generic-garbage-collector
ClusterRoleBinding system:controller:horizontal-pod-autoscaler
      ClusterRole:system:controller:horizontal-pod-autoscaler
      ServiceAccount:kube-system/horizontal-pod-autoscaler
ClusterRoleBinding system:controller:job-controller ClusterRole:system:controller:job-controller
      ServiceAccount:kube-system/job-controller
ClusterRoleBinding system:controller:legacy-service-account-token-cleaner
      ClusterRole:system:controller:legacy-service-account-token-cleaner
      ServiceAccount:kube-system/legacy-service-account-token-cleaner
ClusterRoleBinding system:controller:namespace-controller
      ClusterRole:system:controller:namespace-controller
      ServiceAccount:kube-system/namespace-controller
ClusterRoleBinding system:controller:node-controller ClusterRole:system:controller:node-controller
      ServiceAccount:kube-system/node-controller
ClusterRoleBinding system:controller:persistent-volume-binder
      ClusterRole:system:controller:persistent-volume-binder
      ServiceAccount:kube-system/persistent-volume-binder
ClusterRoleBinding system:controller:pod-garbage-collector
      ClusterRole:system:controller:pod-garbage-collector
      ServiceAccount:kube-system/pod-garbage-collector
ClusterRoleBinding system:controller:pv-protection-controller
      ClusterRole:system:controller:pv-protection-controller
      ServiceAccount:kube-system/pv-protection-controller
ClusterRoleBinding system:controller:pvc-protection-controller
      ClusterRole:system:controller:pvc-protection-controller
      ServiceAccount:kube-system/pvc-protection-controller
ClusterRoleBinding system:controller:replicaset-controller
      ClusterRole:system:controller:replicaset-controller
      ServiceAccount:kube-system/replicaset-controller
ClusterRoleBinding system:controller:replication-controller
      ClusterRole:system:controller:replication-controller
      ServiceAccount:kube-system/replication-controller
ClusterRoleBinding system:controller:resource-claim-controller
      ClusterRole:system:controller:resource-claim-controller
      ServiceAccount:kube-system/resource-claim-controller
ClusterRoleBinding system:controller:resourcequota-controller
      ClusterRole:system:controller:resourcequota-controller
      ServiceAccount:kube-system/resourcequota-controller
ClusterRoleBinding system:controller:root-ca-cert-publisher
      ClusterRole:system:controller:root-ca-cert-publisher
      ServiceAccount:kube-system/root-ca-cert-publisher
ClusterRoleBinding system:controller:route-controller ClusterRole:system:controller:route-controller
      ServiceAccount:kube-system/route-controller
ClusterRoleBinding system:controller:selinux-warning-controller
      ClusterRole:system:controller:selinux-warning-controller
      ServiceAccount:kube-system/selinux-warning-controller
ClusterRoleBinding system:controller:service-account-controller
      ClusterRole:system:controller:service-account-controller
      ServiceAccount:kube-system/service-account-controller
ClusterRoleBinding system:controller:service-ca-cert-publisher
      ClusterRole:system:controller:service-ca-cert-publisher
      ServiceAccount:kube-system/service-ca-cert-publisher
ClusterRoleBinding system:controller:service-cidrs-controller
      ClusterRole:system:controller:service-cidrs-controller
      ServiceAccount:kube-system/service-cidrs-controller
ClusterRoleBinding system:controller:service-controller
      ClusterRole:system:controller:service-controller ServiceAccount:kube-system/service-controller
ClusterRoleBinding system:controller:statefulset-controller
      ClusterRole:system:controller:statefulset-controller
      ServiceAccount:kube-system/statefulset-controller
ClusterRoleBinding system:controller:ttl-after-finished-controller
      ClusterRole:system:controller:ttl-after-finished-controller
      ServiceAccount:kube-system/ttl-after-finished-controller
ClusterRoleBinding system:controller:ttl-controller ClusterRole:system:controller:ttl-controller
      ServiceAccount:kube-system/ttl-controller
ClusterRoleBinding system:controller:validatingadmissionpolicy-status-controller
      ClusterRole:system:controller:validatingadmissionpolicy-status-controller
      ServiceAccount:kube-system/validatingadmissionpolicy-status-controller
ClusterRoleBinding system:controller:volumeattributesclass-protection-controller
      ClusterRole:system:controller:volumeattributesclass-protection-controller
      ServiceAccount:kube-system/volumeattributesclass-protection-controller
"""
