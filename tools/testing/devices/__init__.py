"""Devices without hardware: what the known drivers publish in ResourceSlices.

Names, attributes, capacities, counters and classes are those of the drivers' own programs:
NVIDIA's dra-driver-nvidia-gpu, and dra-driver-cpu and dranet of kubernetes-sigs, as of 2026.

    known_devices    the devices of a driver, by the name of a model
    nvidia_gpus      GPUs, whole and divided
    cpus             CPUs by NUMA node
    network_cards    cards with RDMA
    pci_slots        where GPUs and cards sit on a board
"""
