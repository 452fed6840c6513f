"""Judges that share no code with this package: isl for index systems, SymPy for Smith forms, JAX and mpmath for values.

``python -m tests.judges isl 10000`` asks one of them for as many generated cases. A judge is skipped where its library
is not installed.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
