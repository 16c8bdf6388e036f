"""The features of dynamic resources that feature gates turn off. Mirrors AllocatorFeatures."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Features(msgspec.Struct, frozen=True):
    """The features of dynamic resources, each True if it is on."""

    extended_resources: bool = True
    prioritized_lists: bool = True
    device_taints: bool = True
    device_taint_rules: bool = True
    partitionable_devices: bool = True
    consumable_capacity: bool = True
    binding_conditions: bool = True
    filter_timeout: bool = True
    fractional_ranges: bool = False
    # What 1.37 changed without a gate.
    capacity_in_format_of_step: bool = False
    config_of_chosen_requests: bool = False
    counters_of_own_nodes: bool = False
    device_in_selector_errors: bool = False
    list_attributes: bool = False


EVERY_FEATURE = Features()


def features_of(gates: Mapping[str, bool]) -> Features:
    return Features(
        extended_resources=gates["DRAExtendedResource"],
        prioritized_lists=gates["DRAPrioritizedList"],
        device_taints=gates["DRADeviceTaints"],
        device_taint_rules=gates["DRADeviceTaintRules"],
        partitionable_devices=gates["DRAPartitionableDevices"],
        consumable_capacity=gates["DRAConsumableCapacity"],
        binding_conditions=gates["DRADeviceBindingConditions"]
        and gates["DRAResourceClaimDeviceStatus"],
        filter_timeout=gates["DRASchedulerFilterTimeout"],
        fractional_ranges=gates.get("DRAFractionalCapacityRange", False),
        capacity_in_format_of_step=gates["CapacityInFormatOfStep"],
        config_of_chosen_requests=gates["ConfigOfChosenRequests"],
        counters_of_own_nodes=gates["CountersOfOwnNodes"],
        device_in_selector_errors=gates["DeviceInSelectorErrors"],
        list_attributes=gates["ListAttributesInSelectors"],
    )
