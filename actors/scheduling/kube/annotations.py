"""Annotations that the scheduler, the volume controller and volume provisioners exchange.

Mirrors component-helpers' storage/volume.
"""

from __future__ import annotations

# On a claim: a volume and the claim are bound to each other.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
# On a claim or a volume: a controller, not a user, has set the reference to the other.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
# On a volume: the provisioner that created it.
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
# On a claim: the node for which a volume has to be created.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
# On a claim: the provisioner that has to create a volume; the second is the older annotation.
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
# On a claim or a volume: the storage class. It takes precedence over the field, even if empty.
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
# On a storage class: if either is "true", new claims without a class get this class.
DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
