"""`python -m berth.actors` is `berth`."""

from .cli import main

if __name__ == "__main__":
    main(prog_name="berth")
