"""A blurred photograph is restored without knowing how it was blurred.

The camera is one line of index notation, ``Y[i, j] = Sum_{a, b} X[i + a, j + b] * K[a, b]``; so
are the misfit to the blurred photograph ``B`` and a roughness of the image. The gradients of
their sum by the image ``X`` *and* by the blur kernel ``K`` are derived, compiled, and used in
turns: descend in the image, then in the kernel, which starts as a wrong guess.

Run it with ``python examples/deblur.py``; figures are written to ``examples/output``.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
import numpy as np
import sympy
from sklearn.datasets import load_sample_image

import sympy_tensordiff as td

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import LogFormatter

KERNEL_SIZE = 9
NOISE = 0.002
SMOOTHING = 0.0005  # weight of the roughness in the end; it starts ten times as large
EDGE = sympy.Rational(1, 100)  # differences of grey far above this count as edges, which are cheap


# %% The problem in index notation, and its derivatives


@dataclass(frozen=True)
class Model:
    """The loss, its gradients by image and kernel, and all three compiled."""

    loss: sympy.Expr
    by_image: td.TensorComprehension
    by_kernel: td.TensorComprehension

    def compile(self, arguments):
        return (
            td.lambdify(arguments, (self.loss, self.by_image), "numba"),
            td.lambdify(arguments, (self.loss, self.by_kernel), "numba"),
        )


def derive(height: int, width: int):
    """The arguments ``(X, K, B, lam)`` and the model for a blurred photograph of the size given."""
    n = KERNEL_SIZE
    rows, columns = height + n - 1, width + n - 1
    i, j, a, b = td.indices("i j a b")
    lam = sympy.Symbol("lamda", real=True)  # SymPy's spelling: it prints as the Greek letter
    image = td.TensorSymbol("X", (rows, columns))
    kernel = td.TensorSymbol("K", (n, n))
    blurred = td.TensorSymbol("B", (height, width))

    camera = td.TensorComprehension(
        td.IndexedSum(image[i + a, j + b] * kernel[a, b], (a, 0, n - 1), (b, 0, n - 1)), (i, height), (j, width)
    )
    misfit = td.IndexedSum((camera[i, j] - blurred[i, j]) ** 2, (i, 0, height - 1), (j, 0, width - 1)) / 2
    down, right = image[i + 1, j] - image[i, j], image[i, j + 1] - image[i, j]
    roughness = td.IndexedSum(sympy.sqrt(down**2 + right**2 + EDGE**2), (i, 0, rows - 2), (j, 0, columns - 2))
    loss = misfit + lam * roughness

    by_image, by_kernel = td.gradient(loss, (image, kernel))
    print("Y_{i,j} =", sympy.latex(camera.body))
    print("\nloss =", sympy.latex(loss))
    for name, gradient in (("X", by_image), ("K", by_kernel)):
        indices = ",".join(map(str, gradient.indices))
        print(f"\n\\partial loss / \\partial {name}_{{{indices}}} =", sympy.latex(gradient.body))
    return (image, kernel, blurred, lam), Model(loss, by_image, by_kernel)


# %% The photograph


def photograph(height: int, width: int) -> np.ndarray:
    """A grey photograph, halved in resolution, values in 0 ... 1."""
    grey = load_sample_image("china.jpg").mean(axis=2) / 255
    half = grey[:426].reshape(213, 2, 320, 2).mean(axis=(1, 3))
    return half[20 : 20 + height, 10 : 10 + width]


def gaussian(along: float, across: float, degrees: float) -> np.ndarray:
    """A blur kernel that sums to 1, ``along`` and ``across`` being its widths in pixels."""
    y, x = np.mgrid[:KERNEL_SIZE, :KERNEL_SIZE] - (KERNEL_SIZE - 1) / 2
    angle = np.deg2rad(degrees)
    u, v = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    kernel = np.exp(-((u / along) ** 2) / 2 - (v / across) ** 2 / 2)
    return kernel / kernel.sum()


def blur(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """The camera in NumPy, without any of the code derived here."""
    windows = np.lib.stride_tricks.sliding_window_view(image, kernel.shape)
    return np.einsum("ijab,ab->ij", windows, kernel)


def psnr(image: np.ndarray, truth: np.ndarray) -> float:
    """Peak signal to noise in dB, away from the border, where the photograph says nothing."""
    inside = (slice(KERNEL_SIZE, -KERNEL_SIZE),) * 2
    return float(-10 * np.log10(np.mean((image - truth)[inside] ** 2)))


def kernel_error(kernel: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(kernel - truth) / np.linalg.norm(truth))


# %% Descent


def onto_simplex(kernel: np.ndarray) -> np.ndarray:
    """The nearest kernel without negative entries that sums to 1."""
    ordered = np.sort(kernel.ravel())[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, ordered.size + 1)
    return np.maximum(kernel - excess[np.flatnonzero(ordered > excess)[-1]], 0)


def descend(gradient, project, start: np.ndarray, step: float, count: int, losses: list[float]) -> np.ndarray:
    """Nesterov's accelerated descent, each step projected."""
    point, look, momentum = start, start, 1.0
    for _ in range(count):
        loss, slope = gradient(look)
        losses.append(float(loss))
        following = project(look - step * slope)
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        look = following + (momentum - 1) / grown * (following - point)
        point, momentum = following, grown
    return point


@dataclass
class Restoration:
    """The state of the descent: the image, the kernel, and what happened on the way."""

    image: np.ndarray
    kernel: np.ndarray
    losses: list[float] = field(default_factory=list)
    kernel_errors: list[tuple[int, float]] = field(default_factory=list)


def restore_image(functions, blurred, state: Restoration, lam: float, count: int) -> None:
    """Descend in the image; its curvature is 1 from the camera and ``8 lam / EDGE`` from the roughness."""
    by_image, _ = functions
    state.image = descend(
        lambda image: by_image(image, state.kernel, blurred, lam),
        lambda image: np.clip(image, 0, 1),
        state.image,
        1 / (1 + 8 * lam / float(EDGE)),
        count,
        state.losses,
    )


def restore_kernel(functions, blurred, state: Restoration, lam: float, count: int) -> None:
    """Descend in the kernel, whose entries always sum to 1: only the part of zero sum counts."""
    _, by_kernel = functions

    def gradient(kernel):
        loss, slope = by_kernel(state.image, kernel, blurred, lam)
        return loss, slope - slope.mean()

    # The gradient is affine in the kernel: differences of it are the curvature, and the power
    # method finds the largest one.
    _, base = gradient(state.kernel)
    probe = np.random.default_rng(1).standard_normal(state.kernel.shape)
    for _ in range(6):
        probe = gradient(state.kernel + probe / np.linalg.norm(probe))[1] - base
    step = 0.9 / np.linalg.norm(probe)
    state.kernel = descend(gradient, onto_simplex, state.kernel, step, count, state.losses)


def restore(functions, blurred, truth, guess, *, rounds: int) -> Restoration:
    """Image and kernel in turns, from a strong smoothing to a weak one."""
    state = Restoration(np.pad(blurred, (KERNEL_SIZE - 1) // 2, mode="edge"), guess)
    state.kernel_errors.append((0, kernel_error(guess, truth)))
    for turn in range(rounds):
        lam = max(SMOOTHING, 10 * SMOOTHING * 0.8**turn)
        restore_image(functions, blurred, state, lam, 10)
        restore_kernel(functions, blurred, state, lam, 8)
        state.kernel_errors.append((len(state.losses), kernel_error(state.kernel, truth)))
    restore_image(functions, blurred, state, SMOOTHING, 40)
    return state


# %% Figures


def draw(path: Path, images, kernels, state: Restoration) -> None:
    """Four photographs above three kernels and the course of the descent."""
    figure = plt.figure(figsize=(15, 6.2), layout="constrained")
    axes = figure.subplots(2, 4, height_ratios=(1, 1.15))
    for axis, (title, image) in zip(axes[0], images, strict=True):
        axis.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(title, fontsize=11)
        axis.set_axis_off()
    top = max(kernel.max() for _, kernel in kernels)
    for axis, (title, kernel) in zip(axes[1, :3], kernels, strict=True):
        axis.imshow(kernel, cmap="magma", vmin=0, vmax=top)
        axis.set_title(title, fontsize=11)
        axis.set_axis_off()
    draw_course(axes[1, 3], state)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_course(axis, state: Restoration) -> None:
    """The loss of each gradient step, and the error of the kernel after each turn."""
    axis.semilogy(state.losses, color="tab:blue", lw=1.2)
    axis.set_xlabel("gradient step")
    axis.set_ylabel("loss", color="tab:blue")
    axis.yaxis.set_major_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
    axis.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
    axis.set_title("the descent", fontsize=11)
    right = axis.twinx()
    right.plot(*zip(*state.kernel_errors, strict=True), "o-", color="tab:red", ms=3, lw=1)
    right.set_ylabel("relative error of the kernel", color="tab:red")
    right.set_ylim(bottom=0)


# %% All together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small part of the photograph")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output", help="folder of the figures")
    options = parser.parse_args()
    height, width = (72, 96) if options.quick else (176, 256)

    arguments, model = derive(height, width)
    begin = time.perf_counter()
    functions = model.compile(arguments)

    truth = photograph(height + KERNEL_SIZE - 1, width + KERNEL_SIZE - 1)
    kernel, guess = gaussian(1.6, 0.6, 35), gaussian(2.2, 2.2, 0)
    noise = np.random.default_rng(0).normal(0, NOISE, (height, width))
    blurred = blur(truth, kernel) + noise

    state = restore(functions, blurred, kernel, guess, rounds=13)
    trusting = Restoration(np.pad(blurred, (KERNEL_SIZE - 1) // 2, mode="edge"), guess)
    restore_image(functions, blurred, trusting, SMOOTHING, 40)
    seconds = time.perf_counter() - begin

    padded = np.pad(blurred, (KERNEL_SIZE - 1) // 2, mode="edge")
    before, trusted, after = (psnr(image, truth) for image in (padded, trusting.image, state.image))
    wrong, found = kernel_error(guess, kernel), kernel_error(state.kernel, kernel)
    print(f"\nPSNR: blurred {before:.2f} dB, restored with the guessed kernel {trusted:.2f} dB,", end=" ")
    print(f"restored with the kernel found {after:.2f} dB")
    print(f"relative error of the kernel: guessed {wrong:.3f}, found {found:.3f}")
    print(f"{len(state.losses)} gradient steps on {height} x {width} pixels, compiled and run in {seconds:.1f} s")

    options.output.mkdir(parents=True, exist_ok=True)
    images = [
        ("photograph", truth),
        (f"blurred, {before:.1f} dB", padded),
        (f"restored, kernel as guessed, {trusted:.1f} dB", trusting.image),
        (f"restored, kernel found, {after:.1f} dB", state.image),
    ]
    kernels = [
        ("true kernel", kernel),
        (f"guess, error {wrong:.2f}", guess),
        (f"found, error {found:.2f}", state.kernel),
    ]
    draw(options.output / "deblur.png", images, kernels, state)
    print(f"figure: {options.output / 'deblur.png'}")

    assert after > before, "the restored photograph is no better than the blurred one"
    assert found < wrong, "the kernel found is no better than the guess"


if __name__ == "__main__":
    main()
