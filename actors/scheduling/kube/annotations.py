"""The annotations by which the scheduler, the volume controller and provisioners of volumes agree.

Mirrors component-helpers' storage/volume.
"""

from __future__ import annotations

# Of a claim: a volume and the claim are bound to each other.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
# Of a claim or a volume: a controller has set its reference to the other one, not a user.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
# Of a volume: the provisioner that made it.
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
# Of a claim: the node for which a volume has to be made.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
# Of a claim: the provisioner that has to make a volume, under its name of today and the older one.
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
# Of a claim or a volume: its storage class. It counts before the field, even if it is empty.
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
# Of a storage class: it is that of new claims without a class, if one of these is "true".
DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
