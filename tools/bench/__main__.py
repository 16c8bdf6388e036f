"""`python -m tools.bench` is `berth bench`."""

from tools.bench.command import bench

if __name__ == "__main__":
    bench(prog_name="berth bench")
