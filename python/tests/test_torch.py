"""PyTorch's scaled_dot_product_attention on the CPU."""

import fa1lab
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (FA1LAB_TEST_TORCH=1 installs it)")
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

TYPES = {"fp32": torch.float32, "bf16-inputs": torch.bfloat16, "fp16-inputs": torch.float16}
BACK_ENDS = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION}


def tensors(dtype, heads=4, n_q=48, n_kv=48, d=32):
    torch.manual_seed(5)
    return [torch.randn(2, heads, n, d).to(dtype) for n in (n_q, n_kv, n_kv)]


@pytest.mark.parametrize("arithmetic", TYPES)
@pytest.mark.parametrize("back_end", BACK_ENDS)
@pytest.mark.parametrize("causal", [False, True], ids=["all keys", "causal"])
def test_its_outputs_are_right(back_end, arithmetic, causal, record_property):
    q, k, v = tensors(TYPES[arithmetic])
    with sdpa_kernel(BACK_ENDS[back_end]):
        out = scaled_dot_product_attention(q, k, v, is_causal=causal)

    result = fa1lab.assert_attention(q, k, v, out, causal="top-left" if causal else None)

    assert result.verdict == "proved right" and result.arithmetic == arithmetic
    print(f"{back_end}, {arithmetic}, {'causal' if causal else 'all keys'}: {result.ulp:.3g} ulp, RMS {result.rms:.3g}, "
          f"{result.fraction:.3g} of the bound")
    record_property("fraction", result.fraction)


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_a_wrong_scale_a_missing_mask_and_another_corner_are_named(back_end):
    q, k, v = tensors(torch.float32, n_kv=64)
    with sdpa_kernel(BACK_ENDS[back_end]):
        unscaled = scaled_dot_product_attention(q, k, v, scale=1.0)
        unmasked = scaled_dot_product_attention(q, k, v)
        causal = scaled_dot_product_attention(q, k, v, is_causal=True)

    with pytest.raises(AssertionError, match="looks like  scores are not scaled"):
        fa1lab.assert_attention(q, k, v, unscaled)
    with pytest.raises(AssertionError, match="looks like  the mask is ignored: every key is counted"):
        fa1lab.assert_attention(q, k, v, unmasked, causal="top-left")
    with pytest.raises(AssertionError, match="the causal mask is aligned at the top left"):
        fa1lab.assert_attention(q, k, v, causal, causal="bottom-right")
    fa1lab.assert_attention(q, k, v, unscaled, scale=1.0)


def test_masks_and_grouped_heads_are_read_from_tensors():
    q, k, v = tensors(torch.float32)
    k, v = k[:, :2], v[:, :2]
    mask = torch.rand(48, 48) < 0.7
    mask[:, 0] = True
    bias = torch.randn(48, 48)
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    biased = scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=True)

    fa1lab.assert_attention(q, k, v, out, mask=mask)
    fa1lab.assert_attention(q, k, v, biased, bias=bias)
    assert fa1lab.judge(q, k, v, biased).wrong


def test_views_and_tensors_with_a_gradient_are_read():
    joined = torch.randn(2, 48, 3, 4, 32, requires_grad=True)  # as a projection gives q, k and v
    q, k, v = (joined[:, :, i].transpose(1, 2) for i in range(3))
    assert not q.is_contiguous()

    fa1lab.assert_attention(q, k, v, scaled_dot_product_attention(q, k, v))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_numbers_of_8_bits_are_read(dtype):
    q, k, v = (t.to(dtype) for t in tensors(torch.float32))
    out = scaled_dot_product_attention(*(t.float() for t in (q, k, v)))

    result = fa1lab.assert_attention(q, k, v, out, arithmetic="fp32")

    assert result.verdict == "proved right"


def test_a_tensor_without_memory_is_refused():
    q, k, v = tensors(torch.float32)

    with pytest.raises((TypeError, ValueError), match="^v: "):
        fa1lab.judge(q, k, v.to("meta"), q)


def test_subnormals_count_where_torch_flushes_them():
    ones, tiny = np.ones((4, 2), np.float32), np.full((4, 2), 1e-41, np.float32)
    if not torch.set_flush_denormal(True):
        pytest.skip("this machine does not flush subnormals")
    try:
        result = fa1lab.judge(ones, ones, tiny, tiny, threads=1)
        flushed = float((torch.from_numpy(tiny) * 1.0).max()) == 0.0
    finally:
        torch.set_flush_denormal(False)

    assert flushed, "this thread does not flush, or no longer: the test says nothing"
    assert result.verdict == "proved right" and result.worst.truth > 0
