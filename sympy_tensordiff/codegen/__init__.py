"""From the tensor graph to running kernels: planning, lowering, printing, compiling."""
