"""The controllers of volumes and claims: binding, provisioning, attaching, protecting."""
