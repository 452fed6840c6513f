"""Public boards: GradBench's evals as one of its tools, and AC optimal power flow on the cases of PGLib."""
