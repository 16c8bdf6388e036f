"""`python -m actors` is `berth`."""

from actors.cli import main

if __name__ == "__main__":
    main()
