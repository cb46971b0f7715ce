"""Attention as NumPy does it: right in double, and FA1's recurrence in fp32 with room for a fault."""

import numpy as np


def attention(q, k, v, scale=None, permitted=True, bias=0.0, cap=None, base=np.e, with_lse=False):
    """The formula, in double. Query heads may be a multiple of the KV heads."""
    q, k, v = (np.asarray(a, dtype=np.float64) for a in (q, k, v))
    if q.ndim > 2:
        k, v = (np.repeat(a, q.shape[-3] // a.shape[-3], axis=-3) for a in (k, v))
    scale = np.float32(q.shape[-1] ** -0.5) if scale is None else scale
    s = float(scale) * (q @ k.swapaxes(-1, -2))
    s = np.where(permitted, (s if cap is None else cap * np.tanh(s / cap)) + bias, -np.inf)
    p = base ** (s - s.max(axis=-1, keepdims=True))
    l = p.sum(axis=-1, keepdims=True)
    o = p / l @ v
    return (o, (s.max(axis=-1, keepdims=True) + np.log(l))[..., 0]) if with_lse else o


def tiles(q, k, v, Bc=4, alpha_on_l=True, alpha_on_O=True, divide=True, to=lambda x: x):
    """Tiles of Bc keys, a running maximum, fp32; `to` rounds the carries after each tile."""
    scale = np.float32(q.shape[-1] ** -0.5)
    m = np.full(q.shape[:-1] + (1,), -np.inf, dtype=np.float32)
    l = np.zeros_like(m)
    O = np.zeros(q.shape[:-1] + (v.shape[-1],), dtype=np.float32)
    for j in range(0, k.shape[-2], Bc):
        s = scale * (q @ k[..., j : j + Bc, :].swapaxes(-1, -2))
        m_new = np.maximum(m, s.max(axis=-1, keepdims=True))
        alpha = np.exp(m - m_new)
        p = np.exp(s - m_new)
        l = to((alpha if alpha_on_l else 1) * l + p.sum(axis=-1, keepdims=True))
        O = to((alpha if alpha_on_O else 1) * O + p @ v[..., j : j + Bc, :])
        m = m_new
    return (O / l if divide else O).astype(np.float32)


def numbers(*shapes, seed=7):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def to_bfloat16(x):
    """The bfloat16 numbers nearest to these floats, ties to even, as floats."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
