"""What config/ ships beside Python: rights, manifests, image, units, dashboard, alerts."""
