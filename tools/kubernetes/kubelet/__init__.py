"""The kubelet: the life of containers, images, addresses and statuses, as functions of the time.

pressure/ evicts and kills pods when too little is left on a node, resizing/ resizes pods in place,
stages/ has the lives of pods and nodes as data, scripts/ what containers say and do.
"""
