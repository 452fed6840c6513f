"""The exceptions of the package: each says who caused it and what to do.

Every message carries the offending values; every class is a `TensorDiffError`, and
also the built-in exception a Python programmer would expect in its place.
"""


class TensorDiffError(Exception):
    """Base class of all errors raised by this package."""


class ShapeError(TensorDiffError, ValueError):
    """An extent, a rank or a shape is impossible or does not fit; the caller mends the expression."""


class IndexExpressionError(TensorDiffError, ValueError):
    """An index is not an integer affine form of integer symbols; the caller rewrites the index."""


class OutOfShapeError(TensorDiffError, IndexError):
    """A read leaves the shape of its tensor; the caller mends the range, the index or the shape."""


class UnsupportedError(TensorDiffError, NotImplementedError):
    """The node is outside of what is supported; the message names it, the reason and the way out."""


class LoopBoundError(UnsupportedError, ValueError):
    """The range of a sum cannot be written as the bounds of loops; the caller writes the index without rounding."""


class ArgumentError(TensorDiffError, ValueError):
    """An argument of a call (a name, an array, a scalar, an option) does not fit; the message names it."""


class ArgumentTypeError(TensorDiffError, TypeError):
    """An argument of a call has the wrong type or dtype; the message names it."""


class SingularMatrixError(TensorDiffError, ValueError):
    """A matrix of a call has no inverse; the message names it."""


class BackendError(TensorDiffError, ImportError):
    """The backend asked for is not installed or has no device; the message names what to install."""


class DerivativeMismatch(TensorDiffError, AssertionError):
    """A derivative disagrees with central differences; the message names the worst entry."""


class VerificationError(TensorDiffError, AssertionError):
    """Generated loops break a law (a read outside a shape, two writers of one entry): a bug of ours."""
