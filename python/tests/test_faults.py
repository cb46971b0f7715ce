"""Wrong outputs are proved wrong, and the kind of the fault is named."""

import fa1lab
import numpy as np
import pytest
from formula import attention, numbers, tiles, to_bfloat16

q, k, v = numbers((3, 16, 8), (3, 40, 8), (3, 40, 8))
grouped = numbers((1, 6, 16, 8), (1, 3, 40, 8), (1, 3, 40, 8))
i, j = np.arange(16)[:, None], np.arange(40)[None, :]
scale = np.float32(8**-0.5)
lengths = np.array([40, 31, 22])
within = j < lengths[:, None, None]


def other_heads():
    (Q, K, V) = grouped
    return attention(Q, np.tile(K, (1, 2, 1, 1)), np.tile(V, (1, 2, 1, 1)))


FAULTS = {
    "the scale is forgotten": (
        lambda: attention(q, k, v, scale=1.0), {}, "scores are not scaled"),
    "the scale comes twice": (
        lambda: attention(q, k, v, scale=scale * scale), {}, "scores are scaled twice"),
    "the exponential is to base 2": (
        lambda: attention(q, k, v, base=2.0), {}, "the exponential is 2^x in the place of e^x"),
    "no alpha on O": (
        lambda: tiles(q, k, v, alpha_on_O=False), {}, "the carried O is not rescaled"),
    "no alpha on l": (
        lambda: tiles(q, k, v, alpha_on_l=False), {}, "the carried l is not rescaled"),
    "no alpha": (
        lambda: tiles(q, k, v, alpha_on_l=False, alpha_on_O=False), {}, "neither l nor O is rescaled"),
    "O is not divided": (
        lambda: tiles(q, k, v, divide=False), {}, "O is not divided by l"),
    "the last key is dropped": (
        lambda: attention(q, k[:, :-1], v[:, :-1]), {}, "the last key is left out"),
    "V is read transposed": (
        lambda: attention(q, k, v.reshape(3, 8, 40).swapaxes(1, 2)), {}, "the strides of V were ignored"),
    "K and V are exchanged": (
        lambda: attention(q, v, k), {}, "K and V have changed places"),
    "every head is the first": (
        lambda: np.broadcast_to(attention(q, k, v)[:1], q.shape), {}, "every batch-head holds the answer of the first"),
    "the mean of V": (
        lambda: np.broadcast_to(v.mean(axis=1, keepdims=True, dtype=np.float64), q.shape), {}, "O is the mean of V"),
    "weights in bfloat16": (
        lambda: attention_with_rounded_weights(), {}, "p is rounded to bfloat16 where it meets V"),
    "a mask that nobody asked for": (
        lambda: attention(q, k, v, permitted=j <= i), {}, "a causal mask is applied: row r sees the keys up to r"),
    "a causal mask at the other corner": (
        lambda: attention(q, k, v, permitted=j <= i + 24), {"causal": "top-left"},
        "the causal mask is aligned at the bottom right"),
    "a causal mask that is one off": (
        lambda: attention(q, k, v, permitted=j <= i + 25), {"causal": "bottom-right"},
        "the mask is off by one: each row sees the key after its diagonal"),
    "padding keys are counted": (
        lambda: attention(q, k, v), {"key_lengths": [40, 31, 22]}, "the key lengths are ignored"),
    "the mask is taken the other way round": (
        lambda: attention(q, k, v, permitted=(i + j) % 3 > 0), {"mask": (i + j) % 3 == 0},
        "the mask is taken the other way round"),
    "the bias is scaled": (
        lambda: attention(q, k, v, bias=scale * (i - j)), {"bias": (i - j).astype(np.float32)},
        "the bias is scaled with the scores"),
    "heads are shared the other way": (
        other_heads, {"arrays": grouped}, "KV heads are shared the other way"),
}


def attention_with_rounded_weights():
    s = scale * (q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2))
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return to_bfloat16(p).astype(np.float64) @ v / p.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name):
    make, options, says = FAULTS[name]
    options = dict(options)
    arrays = options.pop("arrays", (q, k, v))
    out = np.ascontiguousarray(make(), dtype=np.float32)

    result = fa1lab.judge(*arrays, out, **options)

    assert result.verdict == "proved wrong" and not result
    assert any(line.startswith(says) for line in result.looks_like), result.looks_like


def test_carries_in_bfloat16_are_proved_wrong():
    result = fa1lab.judge(q, k, v, tiles(q, k, v, to=to_bfloat16))

    assert result.verdict == "proved wrong" and result.looks_like, str(result)
    assert result.ulp > 1000 and result.fraction > 1


def test_one_wrong_element_is_found_with_its_place_and_values():
    out = attention(q, k, v).astype(np.float32)
    out[1, 7, 2] += np.float32(0.01)

    result = fa1lab.judge(q, k, v, out)

    assert result.wrong and result.outputs[0].elements["proved wrong"] == 1
    assert result.worst.at == (0, 1, 7, 2) and result.worst.output == "O" and len(result.worst_ten) == 1
    assert result.worst.got == out[1, 7, 2]
    assert result.worst.truth == pytest.approx(attention(q, k, v)[1, 7, 2], rel=1e-14)
    assert result.worst.error == pytest.approx(0.01, rel=1e-4)
    assert result.worst.fraction == pytest.approx(result.worst.error / result.worst.bound) and result.worst.fraction > 1


def test_of_nan_it_is_said_where_it_can_come_from():
    out = attention(q, k, v).astype(np.float32)
    out[2, 3, 4] = np.nan
    made = fa1lab.judge(q, k, v, out)
    assert made.wrong and "the kernel made it" in made.not_finite[-1], made.not_finite

    poisoned = v.copy()
    poisoned[2, 5, 4] = np.nan
    came = fa1lab.judge(q, k, poisoned, out)
    assert any(line.startswith("it can come from V") for line in came.not_finite), came.not_finite


def test_several_outputs_are_judged_and_compared_bit_by_bit():
    first = attention(q, k, v).astype(np.float32)
    other = first.copy()
    other[0, 2, 3] = np.nextafter(other[0, 2, 3], np.float32(9))
    wrong = first + np.float32(1)

    result = fa1lab.judge(q, k, v, [first, other, wrong])

    assert [one.name for one in result.outputs] == ["out[0]", "out[1]", "out[2]"]
    assert [one.verdict for one in result.outputs] == ["proved right", "proved right", "proved wrong"]
    assert result.outputs[1].bits_differ == 1 and result.outputs[1].first_difference == (0, 0, 2, 3)
    assert result.outputs[2].bits_differ == first.size
    assert result.verdict == "proved wrong" and result.max == result.outputs[2].errors.max
