"""`python -m berth.tools.bench` is `berth bench`."""

from berth.tools.bench.command import bench

if __name__ == "__main__":
    bench(prog_name="berth bench")
