"""`python -m berth.tools.bench` is `berth bench`."""

from .command import bench

if __name__ == "__main__":
    bench(prog_name="berth bench")
