"""Details of how the parts are put together; `system.py` above shows the whole."""
