"""Is this the attention of q, k and v, and if not, how wrong, where and why?

    fa1lab.assert_attention(q, k, v, out)        # in the place of an allclose
    print(fa1lab.judge(q, k, v, out, causal="top-left"))
    q, k, v, scale, recipe = fa1lab.make("bh=2 n_q=64 n_kv=256 d=32 sigma=4")

The answer is that of the command `fa1lab judge`: each output is held against a certified truth and against the error
bound of any right kernel in its arithmetic. Arrays come from NumPy, PyTorch (on the CPU) or anything else with DLPack
or the buffer protocol: float64, float32, float16, bfloat16, float8 (e4m3fn, e5m2), any strides.
"""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Union

import numpy as np

from . import _core
from ._core import Element, Errors, Output, Result, RowStatistics, Spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Array",
    "Element",
    "Errors",
    "Output",
    "Problem",
    "Result",
    "RowStatistics",
    "Spread",
    "assert_attention",
    "judge",
    "make",
]


class _DLPack(Protocol):
    def __dlpack__(self) -> Any: ...


Array = Union[_DLPack, "np.ndarray[Any, Any]", memoryview]
"""What an array may be; other objects with the buffer protocol are read, too."""


class Problem(NamedTuple):
    """What make() gives: arrays [bh, n, d] of float32."""

    q: NDArray[np.float32]
    k: NDArray[np.float32]
    v: NDArray[np.float32]
    scale: float
    recipe: str


def make(recipe: str) -> Problem:
    """The problem of a recipe, such as "bh=2 n_q=37 n_kv=1000 d=64 sigma=4 order=ascending seed=7": the same numbers
    as the program makes. ValueError says which key is wrong."""
    if not isinstance(recipe, str):
        raise TypeError(f"recipe: is of type {type(recipe).__name__}; want text such as 'n_q=4 n_kv=64 d=16'")
    return Problem(*_core.make(recipe))


def judge(
    q: Array,
    k: Array,
    v: Array,
    out: Array | Sequence[Array],
    *,
    lse: Array | None = None,
    base2_lse: bool = False,
    scale: float | None = None,
    layout: Literal["bhnd", "bnhd"] | None = None,
    causal: Literal["top-left", "bottom-right"] | None = None,
    window: tuple[int, int] | None = None,
    key_lengths: Iterable[int] | None = None,
    mask: Array | None = None,
    mask_true_is_masked: bool = False,
    bias: Array | None = None,
    softcap: float | None = None,
    tanh_approx: bool = False,
    empty_row: Literal["zero", "nan"] = "zero",
    arithmetic: str | None = None,
    rows: int | Literal["all"] | None = None,
    threads: int | None = None,
) -> Result:
    """Judges `out`, or each of several outputs, as the attention of q, k and v.

    Shapes are [n, d], [bh, n, d] or [b, h, n, d] (layout="bnhd": [b, n, h, d]); query heads may share KV heads.

    lse, base2_lse  the log-sum-exp of each row, without the last axis; to base 2
    scale           factor on q . k; 1/sqrt(d) where nothing is said
    causal          "top-left": row i sees keys j <= i, as is_causal of PyTorch; "bottom-right": j <= i + n_kv - n_q,
                    as FlashAttention
    window          (left, right): keys before and after the diagonal, -1 is no limit
    key_lengths     the number of keys that count in each batch
    mask            truth values (true: permitted), or 0 and -inf; [n_q, n_kv] to [b, h, n_q, n_kv], an axis of 1 is
                    repeated. mask_true_is_masked: the other way round
    bias            added to the scaled scores; -inf forbids
    softcap         C: scaled scores become C tanh(s / C); tanh_approx: by PTX's tanh.approx.f32
    empty_row       what is right where no key is permitted: "zero" (O = 0, LSE = -inf) or "nan"
    arithmetic      what the kernel computed in: "fp32", "bf16-inputs", ...; guessed from the types
    rows            rows of each head, evenly spaced, or "all"; as many as take some seconds
    threads         how many to judge with; as many as there are cores

    ValueError or TypeError says what does not fit. Nobody may write to the arrays meanwhile.
    """
    choices = _core.Choices()
    choices.scale = _number("scale", scale)
    choices.layout = _one_of("layout", layout, ["bhnd", "bnhd"])
    choices.arithmetic = _one_of("arithmetic", arithmetic, _core.arithmetics())
    choices.causal = _one_of("causal", causal, ["top-left", "bottom-right"])
    choices.empty_row_is_nan = _one_of("empty_row", empty_row, ["zero", "nan"]) == "nan"
    choices.left, choices.right = _window(window)
    if rows is not None:
        choices.rows = _MOST if isinstance(rows, str) and rows == "all" else _whole("rows", rows, 1, "or 'all'")
    choices.threads = len(os.sched_getaffinity(0)) if threads is None else _whole("threads", threads, 1)
    if key_lengths is not None:
        choices.key_lengths = [_whole("key_lengths", length, 0) for length in key_lengths]
    cap = _number("softcap", softcap)
    if cap is not None:
        if not cap > 0.0:
            raise ValueError(f"softcap: is {softcap!r}; want a number above 0")
        choices.softcap = cap
    choices.base2_lse = _with("base2_lse", base2_lse, "lse", lse)
    choices.mask_true_is_masked = _with("mask_true_is_masked", mask_true_is_masked, "mask", mask)
    choices.tanh_approx = _with("tanh_approx", tanh_approx, "softcap", softcap)

    if isinstance(out, (list, tuple)):
        if not out:
            raise ValueError("out: is an empty list; want an array, or several")
        outputs = [_array(f"out[{i}]", one) for i, one in enumerate(out)]
    else:
        outputs = [_array("out", out)]
    return _core.judge(
        _array("q", q),
        _array("k", k),
        _array("v", v),
        outputs,
        None if lse is None else _array("lse", lse),
        None if mask is None else _array("mask", mask),
        None if bias is None else _array("bias", bias),
        choices,
    )


def assert_attention(
    q: Array,
    k: Array,
    v: Array,
    out: Array | Sequence[Array],
    *,
    allow_undecided: bool = False,
    **options: Any,
) -> Result:
    """Raises an AssertionError with all that judge() found where `out` is proved wrong, or where nothing could be
    decided: scores without a digit, overflow, no element at all. With allow_undecided only what is proved wrong raises.
    Options are those of judge(); what it found is returned."""
    __tracebackhide__ = True  # pytest then shows the line of the test
    result = judge(q, k, v, out, **options)
    undecided = result.verdict == "undecided" or result.rows_judged == 0
    if result.wrong or (undecided and not allow_undecided):
        raise AssertionError(str(result))
    return result


_MOST = 2**40

# Numbers whose type DLPack or NumPy has no name for come as the whole numbers of their bits.
_FORMATS = {"bfloat16": ("bf16", "uint16"), "float8_e4m3fn": ("f8_e4m3", "uint8"), "float8_e5m2": ("f8_e5m2", "uint8")}

_CPU = (1, 3)  # DLPack's kDLCPU and kDLCUDAHost


def _array(name: str, given: Any) -> _core.Array:
    if not isinstance(given, np.ndarray):
        if hasattr(given, "__dlpack_device__"):
            return _dlpack_array(name, given)
        try:
            given = np.asarray(memoryview(given))
        except (TypeError, ValueError, NotImplementedError):
            raise TypeError(f"{name}: is of type {type(given).__name__}, whose memory cannot be read; want an array with "
                            "DLPack or the buffer protocol, such as NumPy's or PyTorch's") from None
    form, bits = _FORMATS.get(given.dtype.name, ("", ""))
    if form:
        given = given.view(bits)
    big_endian = not given.dtype.isnative
    if big_endian:
        given = given.view(given.dtype.newbyteorder("="))
    if any(stride < 0 or stride % given.itemsize != 0 for stride in given.strides):
        given = np.ascontiguousarray(given)
    return _core.Array(name, given, form or None, big_endian)


def _dlpack_array(name: str, given: Any) -> _core.Array:
    try:
        kind, number = given.__dlpack_device__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{name}: its memory cannot be read: {error}") from error
    if kind not in _CPU:
        raise ValueError(f"{name}: lies on device {getattr(given, 'device', (int(kind), number))}; want it in the CPU's "
                         "memory, such as q.cpu()")
    form, bits = _FORMATS.get(str(getattr(given, "dtype", "")).rpartition(".")[2], ("", ""))
    if form in ("", "bf16"):
        return _core.Array(name, given, None, False)
    # Not every version of PyTorch exports numbers of 8 bits.
    library = sys.modules[type(given).__module__.partition(".")[0]]
    return _core.Array(name, given.view(getattr(library, bits)), form, False)


def _number(name: str, given: Any) -> float | None:
    """A finite number that fp32 has, or None."""
    if given is None:
        return None
    try:
        number = float(given)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: is {given!r}; want a number") from None
    if not math.isfinite(number) or abs(number) > float(np.finfo(np.float32).max):
        raise ValueError(f"{name}: is {given!r}; want a finite fp32 number")
    return number


def _whole(name: str, given: Any, least: int, otherwise: str = "") -> int:
    want = f"want a whole number from {least} on {otherwise}".rstrip()
    try:
        number = operator.index(given)
    except TypeError:
        raise TypeError(f"{name}: is {given!r}; {want}") from None
    if not least <= number <= _MOST or isinstance(given, bool):
        raise ValueError(f"{name}: is {given!r}; {want}")
    return number


def _one_of(name: str, given: Any, known: Sequence[str]) -> str | None:
    if given is None or (isinstance(given, str) and given in known):
        return given
    raise (ValueError if isinstance(given, str) else TypeError)(f"{name}: is {given!r}; want one of {', '.join(known)}")


def _window(given: Any) -> tuple[int | None, int | None]:
    if given is None:
        return None, None
    try:
        left, right = given
    except (TypeError, ValueError):
        raise TypeError(f"window: is {given!r}; want (left, right), numbers of keys before and after the diagonal") from None
    sides = [_whole("window", side, -1) for side in (left, right)]
    return tuple(None if side < 0 else side for side in sides)  # type: ignore[return-value]


def _with(name: str, given: bool, needs: str, other: object) -> bool:
    if given and other is None:
        raise ValueError(f"{name}: there is no {needs}; want {needs} too")
    return bool(given)
