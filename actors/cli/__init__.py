"""The `berth` command: its subcommands `run` and `config`, and kube-scheduler's flags."""

from .commands import main

__all__ = ["main"]
