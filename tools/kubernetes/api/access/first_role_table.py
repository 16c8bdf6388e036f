"""The roles and bindings of every cluster, in the form that first_roles reads."""

TABLE = """
ClusterRole admin
  aggregate admin
ClusterRole cluster-admin
  * * *
  * url *
ClusterRole edit +admin
  aggregate edit
ClusterRole system:aggregate-to-admin +admin
  create authorization.k8s.io localsubjectaccessreviews
  create,delete,deletecollection,get,list,patch,update,watch rbac.authorization.k8s.io rolebindings,
      roles
ClusterRole system:aggregate-to-edit +edit
  get,list,watch core pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy
  impersonate core serviceaccounts
  create,delete,deletecollection,patch,update core pods,pods/attach,pods/exec,pods/portforward,
      pods/proxy
  create core pods/eviction
  create,delete,deletecollection,patch,update core configmaps,persistentvolumeclaims,
      replicationcontrollers,replicationcontrollers/scale,secrets,serviceaccounts,services,
      services/proxy
  create core serviceaccounts/token
  create,delete,deletecollection,patch,update core,events.k8s.io events
  create,delete,deletecollection,patch,update apps daemonsets,deployments,deployments/rollback,
      deployments/scale,replicasets,replicasets/scale,statefulsets,statefulsets/scale
  create,delete,deletecollection,patch,update autoscaling horizontalpodautoscalers
  create,delete,deletecollection,patch,update batch cronjobs,jobs
  create,delete,deletecollection,patch,update extensions daemonsets,deployments,
      deployments/rollback,deployments/scale,ingresses,networkpolicies,replicasets,
      replicasets/scale,replicationcontrollers/scale
  create,delete,deletecollection,patch,update policy poddisruptionbudgets
  create,delete,deletecollection,patch,update networking.k8s.io ingresses,networkpolicies
  create,delete,deletecollection,get,list,patch,update,watch coordination.k8s.io leases
  create,delete,deletecollection,patch,update resource.k8s.io resourceclaims,resourceclaimtemplates
ClusterRole system:aggregate-to-view +view
  get,list,watch core configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,
      pods,replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,
      services/status
  get,list,watch core bindings,limitranges,namespaces/status,pods/log,pods/status,
      replicationcontrollers/status,resourcequotas,resourcequotas/status
  get,list,watch core namespaces
  get,list,watch core,events.k8s.io events
  get,list,watch discovery.k8s.io endpointslices
  get,list,watch apps controllerrevisions,daemonsets,daemonsets/status,deployments,
      deployments/scale,deployments/status,replicasets,replicasets/scale,replicasets/status,
      statefulsets,statefulsets/scale,statefulsets/status
  get,list,watch autoscaling horizontalpodautoscalers,horizontalpodautoscalers/status
  get,list,watch batch cronjobs,cronjobs/status,jobs,jobs/status
  get,list,watch extensions daemonsets,daemonsets/status,deployments,deployments/scale,
      deployments/status,ingresses,ingresses/status,networkpolicies,replicasets,replicasets/scale,
      replicasets/status,replicationcontrollers/scale
  get,list,watch policy poddisruptionbudgets,poddisruptionbudgets/status
  get,list,watch networking.k8s.io ingresses,ingresses/status,networkpolicies
  get,list,watch resource.k8s.io resourceclaims,resourceclaims/status,resourceclaimtemplates
ClusterRole system:aggregated-metrics-reader +admin +edit +view
  get,list,watch metrics.k8s.io nodes,pods
ClusterRole system:auth-delegator
  create authentication.k8s.io tokenreviews
  create authorization.k8s.io subjectaccessreviews
ClusterRole system:basic-user
  create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews
  create authentication.k8s.io selfsubjectreviews
ClusterRole system:discovery
  get url /api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/
ClusterRole system:kube-scheduler
  create,patch,update core,events.k8s.io events
  create coordination.k8s.io leases
  get,list,update,watch coordination.k8s.io leases kube-scheduler
  create,delete,deletecollection,get,list,patch,update,watch coordination.k8s.io leasecandidates
  get,list,watch core nodes
  delete,get,list,watch core pods
  create core bindings,pods/binding
  patch,update core pods/status
  get,list,watch core replicationcontrollers,services
  get,list,watch apps,extensions replicasets
  get,list,watch apps statefulsets
  get,list,watch policy poddisruptionbudgets
  get,list,watch core persistentvolumeclaims,persistentvolumes
  create authentication.k8s.io tokenreviews
  create authorization.k8s.io subjectaccessreviews
  get,list,watch storage.k8s.io csinodes
  get,list,watch storage.k8s.io volumeattachments
  get,list,watch core namespaces
  get,list,watch storage.k8s.io csidrivers
  get,list,watch storage.k8s.io csistoragecapacities
  get,list,watch resource.k8s.io deviceclasses
  get,list,patch,update,watch resource.k8s.io resourceclaims
  get,list,patch,update,watch resource.k8s.io resourceclaims/status
  update core pods/finalizers
  get,list,watch resource.k8s.io devicetaintrules,resourceslices
  create,delete resource.k8s.io resourceclaims
  patch,update resource.k8s.io resourceclaims/binding
ClusterRole system:public-info-viewer
  get url /healthz,/livez,/readyz,/version,/version/
ClusterRole system:volume-scheduler
  get,list,patch,update,watch core persistentvolumes
  get,list,watch storage.k8s.io storageclasses
  get,list,patch,update,watch core persistentvolumeclaims
ClusterRole view +edit
  aggregate view
ClusterRoleBinding cluster-admin ClusterRole:cluster-admin Group:system:masters
ClusterRoleBinding system:basic-user ClusterRole:system:basic-user Group:system:authenticated
ClusterRoleBinding system:discovery ClusterRole:system:discovery Group:system:authenticated
ClusterRoleBinding system:kube-scheduler ClusterRole:system:kube-scheduler
      User:system:kube-scheduler
ClusterRoleBinding system:public-info-viewer ClusterRole:system:public-info-viewer
      Group:system:authenticated Group:system:unauthenticated
ClusterRoleBinding system:volume-scheduler ClusterRole:system:volume-scheduler
      User:system:kube-scheduler
Role kube-system/extension-apiserver-authentication-reader
  get,list,watch core configmaps extension-apiserver-authentication
Role kube-system/system::leader-locking-kube-scheduler
  create,get,list,update,watch coordination.k8s.io leases
  create,get,list,update,watch coordination.k8s.io leasecandidates
RoleBinding kube-system/system::extension-apiserver-authentication-reader
      Role:extension-apiserver-authentication-reader User:system:kube-controller-manager
      User:system:kube-scheduler
RoleBinding kube-system/system::leader-locking-kube-scheduler
      Role:system::leader-locking-kube-scheduler User:system:kube-scheduler
      ServiceAccount:kube-system/kube-scheduler
"""
