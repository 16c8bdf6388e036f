"""DynamicResources: allocates the devices of ResourceSlices to the ResourceClaims of pods."""
