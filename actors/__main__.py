"""`python -m berth.actors` is `berth`."""

from .command.cli import main

if __name__ == "__main__":
    main(prog_name="berth")
