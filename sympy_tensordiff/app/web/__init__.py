"""A local page to try the package: requests (`server`) go to worker processes (`workers`), which answer (`answers`)."""
