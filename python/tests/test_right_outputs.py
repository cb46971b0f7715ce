"""What is right passes, whatever the arrays look like."""

import array
import ctypes
import platform

import fa1lab
import numpy as np
import pytest
from formula import attention, numbers, tiles

q, k, v = numbers((2, 6, 20, 8), (2, 2, 33, 8), (2, 2, 33, 5))
out = attention(q, k, v).astype(np.float32)
i, j = np.arange(20)[:, None], np.arange(33)[None, :]


def held(*arrays, **options):
    result = fa1lab.judge(*arrays, **options)
    assert result.verdict == "proved right", str(result)
    assert result and not result.wrong and result.outputs[0].errors.elements > 0
    return result


def test_the_formula_in_double_rounded_to_float32_is_proved_right():
    result = held(q, k, v, out)

    assert (result.batches, result.query_heads, result.kv_heads) == (2, 6, 2)
    assert (result.n_q, result.n_kv, result.d, result.dv) == (20, 33, 8, 5)
    assert result.scale == np.float32(8**-0.5) and result.arithmetic == "fp32"
    assert result.rows_judged == 2 * 6 * 20 and result.empty_rows == 0
    assert result.outputs[0].elements == {
        "proved right": out.size, "suspicious": 0, "undecided": 0, "proved wrong": 0}
    assert 0 < result.ulp <= 0.5 and 0 < result.rms <= result.max and abs(result.bias) <= result.rms
    assert 0 < result.fraction < 1 and result.fraction == result.worst.fraction
    assert result.plain.max > 0 and result.rows.entropy.high <= np.log(33)
    assert result.looks_like == [] and result.worst_ten == [] and result.not_finite == []


def test_tiles_with_a_running_maximum_in_float32_are_right():
    one = numbers((3, 16, 8), (3, 40, 8), (3, 40, 8))

    assert held(*one, tiles(*one)).ulp > 0.5


@pytest.mark.parametrize("dtype, arithmetic", [(np.float16, "fp16-inputs"), (np.float64, "fp32")])
def test_other_types_are_guessed_and_said(dtype, arithmetic):
    given = [a.astype(dtype) for a in (q, k, v)]

    result = held(*given, attention(*given).astype(dtype))

    assert result.arithmetic == arithmetic
    assert any("guessed from the types" in line for line in result.assumed)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_that_numpy_does_not_know_are_read(name):
    types = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    given = [a.astype(getattr(types, name)) for a in (q, k, v)]

    result = held(*given, attention(*given).astype(getattr(types, name)))

    assert result.arithmetic == {"bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}[name] + "-inputs"
    assert result.ulp <= 0.5


def test_any_strides_are_read():
    wide = np.zeros((2, 33, 2, 10), dtype=np.float32)
    view = wide[:, ::-1, :, ::2].transpose(0, 2, 1, 3)  # backwards, every other column, axes exchanged
    view[:] = v
    assert view.strides[2] < 0 and not view.flags.c_contiguous

    held(np.asfortranarray(q), k.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2), view, out)


def test_one_head_repeated_by_a_stride_of_0_is_read():
    k1, v1 = k[:, :1], v[:, :1]
    repeated = np.broadcast_to(k1, k.shape), np.broadcast_to(v1, v.shape)
    assert repeated[0].strides[1] == 0 and not repeated[0].flags.writeable

    held(q, *repeated, attention(q, k1, v1).astype(np.float32))


def test_big_endian_numbers_are_read():
    held(q.astype(">f4"), k, v.astype(">f8"), out)


def test_fields_of_records_are_read():
    records = np.zeros(k.shape, dtype=[("other", "u1"), ("k", "f4")])
    records["k"] = k
    assert records["k"].strides[-1] == 5

    held(q, records["k"], v, out)


def test_what_has_only_the_buffer_protocol_is_read():
    flat = memoryview(array.array("f", v[0, 0].ravel().tolist())).cast("B").cast("f", [33, 5])

    held(memoryview(q[0, 0]), k[0, 0], flat, attention(q[0, 0], k[0, 0], v[0, 0]).astype(np.float32))


class OnlyDLPack:
    """As other libraries' arrays are: nothing of NumPy's but the protocol."""

    def __init__(self, kept):
        self.kept = kept

    def __dlpack__(self, **options):
        return self.kept.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.kept.__dlpack_device__()


def test_what_has_only_dlpack_is_read():
    held(OnlyDLPack(q), OnlyDLPack(k[:, :, :, :]), OnlyDLPack(v.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)), out)


def test_the_other_layout_is_read():
    swapped = [np.ascontiguousarray(a.transpose(0, 2, 1, 3)) for a in (q, k, v, out)]

    held(*swapped, layout="bnhd")


MASKED = {
    "causal at the top left": (j <= i, {"causal": "top-left"}),
    "causal at the bottom right": (j <= i + 13, {"causal": "bottom-right"}),
    "a window": ((j >= i + 13 - 6) & (j <= i + 13 + 2), {"window": (6, 2)}),
    "a window without a left limit": (j <= i + 13 + 2, {"window": (-1, 2)}),
    "key lengths": ((j < np.array([33, 25])[:, None, None, None]), {"key_lengths": [33, 25]}),
    "key lengths in an array": ((j < np.array([33, 25])[:, None, None, None]), {"key_lengths": np.array([33, 25])}),
    "truth values": ((i * 7 + j * j) % 5 < 3, {"mask": (i * 7 + j * j) % 5 < 3}),
    "truth values the other way round": (
        (i * 7 + j * j) % 5 < 3, {"mask": (i * 7 + j * j) % 5 >= 3, "mask_true_is_masked": True}),
    "0 and -inf": (
        (i * 7 + j * j) % 5 < 3, {"mask": np.where((i * 7 + j * j) % 5 < 3, 0, -np.inf).astype(np.float32)}),
}


@pytest.mark.parametrize("name", MASKED)
def test_masks_are_those_of_the_command_and_what_they_forbid_matters(name):
    permitted, options = MASKED[name]
    masked = attention(q, k, v, permitted=permitted).astype(np.float32)

    held(q, k, v, masked, **options)
    assert fa1lab.judge(q, k, v, masked).wrong


def test_a_bias_for_each_head_and_a_soft_cap_are_covered():
    (bias,) = numbers((1, 6, 20, 33), seed=8)
    changed = attention(q, k, v, bias=bias, cap=1.5).astype(np.float32)

    held(q, k, v, changed, bias=bias, softcap=1.5)
    assert fa1lab.judge(q, k, v, changed, bias=bias).wrong


def test_rows_without_a_key_are_0_or_nan_by_declaration():
    permitted = np.broadcast_to((j < 12) & (i > 3), (20, 33))
    with np.errstate(invalid="ignore"):
        nan = attention(q, k, v, permitted=permitted).astype(np.float32)
    zero = np.where(np.isnan(nan), 0, nan)

    assert held(q, k, v, zero, mask=permitted).empty_rows == 2 * 6 * 4
    held(q, k, v, nan, mask=permitted, empty_row="nan")
    assert fa1lab.judge(q, k, v, nan, mask=permitted).wrong
    assert fa1lab.judge(q, k, v, zero, mask=permitted, empty_row="nan").wrong


def test_the_log_sum_exp_is_judged_too_in_either_base():
    lse = attention(q, k, v, with_lse=True)[1].astype(np.float32)

    held(q, k, v, out, lse=lse)
    held(q, k, v, out, lse=(lse / np.log(2)).astype(np.float32), base2_lse=True)
    wrong = fa1lab.judge(q, k, v, out, lse=lse / np.float32(np.log(2)))
    assert wrong.wrong and wrong.worst.output == "LSE"


def test_the_scale_that_is_given_counts():
    held(q, k, v, attention(q, k, v, scale=0.25).astype(np.float32), scale=0.25)
    assert fa1lab.judge(q, k, v, out, scale=0.25).wrong


def test_of_many_rows_those_asked_are_judged():
    assert held(q, k, v, out, rows=3).rows_judged == 2 * 6 * 3
    assert held(q, k, v, out, rows="all").rows_judged == 2 * 6 * 20


@pytest.mark.skipif(platform.machine() != "x86_64", reason="where the flags lie is known for x86-64 alone")
def test_subnormals_count_where_another_library_flushes_them():
    # glibc's fenv_t ends with MXCSR; bits 15 and 6 flush results and operands.
    libm, before, flushing = ctypes.CDLL("libm.so.6"), (ctypes.c_uint32 * 8)(), (ctypes.c_uint32 * 8)()
    libm.fegetenv(before)
    libm.fegetenv(flushing)
    flushing[7] |= 0x8040
    ones, tiny = np.ones((4, 2), np.float32), np.full((4, 2), 1e-41, np.float32)

    libm.fesetenv(flushing)
    try:
        result = fa1lab.judge(ones, ones, tiny, tiny, threads=1)
        flushed = float(np.add(tiny, tiny).max()) == 0.0
    finally:
        libm.fesetenv(before)

    assert flushed, "this thread does not flush, or no longer: the test says nothing"
    assert result.verdict == "proved right" and result.worst.truth > 0


def test_one_and_many_threads_find_the_same():
    assert str(fa1lab.judge(q, k, v, out, threads=1)) == str(fa1lab.judge(q, k, v, out, threads=4))
