"""The benchmark suite, `python -m benchmarks`, beside scripts that time single passes (see README.md)."""
