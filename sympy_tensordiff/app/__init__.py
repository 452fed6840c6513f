"""The command line and the demonstration: users of the package, as far as the other rooms know."""
