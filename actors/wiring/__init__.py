"""The parts of the process in their order; `system.py` above shows the whole."""
