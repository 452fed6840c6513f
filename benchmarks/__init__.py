"""The benchmark suite, `python -m benchmarks`, and scripts that time single passes (see README.md)."""
