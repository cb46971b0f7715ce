"""Files that NumPy and the safetensors package write, judged by the program: a transposed view, big-endian numbers,
halves, an archive, bfloat16. Status 4: NumPy is missing, and nothing was tested."""

import argparse
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

SKIPPED = 4

parser = argparse.ArgumentParser()
parser.add_argument("--program", required=True)
program = os.path.abspath(parser.parse_args().program)

try:
    import numpy as np
except ImportError:
    print("skipped: there is no NumPy (Debian: python3-numpy)")
    sys.exit(SKIPPED)
try:
    from safetensors.numpy import save_file
except ImportError:
    save_file = None


def attention(q, k, v, scale, permitted=True, bias=0.0, cap=None):
    """The formula, in double."""
    s = scale * np.einsum("bhid,bhjd->bhij", q, k)
    s = np.where(permitted, (s if cap is None else cap * np.tanh(s / cap)) + bias, -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return np.einsum("bhij,bhjd->bhid", p, v)


def judged(*words):
    done = subprocess.run([program, "judge", "--json", *words], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise AssertionError(f"{words}: status {done.returncode}: {done.stderr}")
    return done.returncode, json.loads(done.stdout)


def held(*words):
    status, record = judged(*words)
    assert status == 0 and record["verdict"] == "proved right", (words, record["verdict"], record["why"])
    assert record["error"]["elements"] > 0
    return record


def refuted(*words):
    status, record = judged(*words)
    assert status == 1 and record["verdict"] == "proved wrong", (words, record["verdict"])
    return record


def bfloat16(x):
    """The bits of the bfloat16 numbers nearest to these floats, ties to even."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def number_of(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def write_safetensors(path, tensors):
    """By hand, where the package cannot: `tensors` is {name: (type, shape, bytes)}."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


random = np.random.default_rng(7)
q, k, v = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 6, 20, 8), (2, 2, 33, 8), (2, 2, 33, 5)))
scale = float(np.float32(1 / math.sqrt(8)))


def truth_of(q, k, v, permitted=True, bias=0.0, cap=None):
    group = q.shape[1] // k.shape[1]
    return attention(q.astype(np.float64), np.repeat(k, group, axis=1).astype(np.float64),
                     np.repeat(v, group, axis=1).astype(np.float64), scale, permitted, bias, cap)


o = truth_of(q, k, v).astype(np.float32)

with tempfile.TemporaryDirectory() as folder:
    def save(name, array):
        path = os.path.join(folder, name + ".npy")
        np.save(path, array)
        return path

    def header_of(path):
        with open(path, "rb") as file:
            return file.read(128)

    # Plain, a transposed view (NumPy writes fortran_order without being asked), big-endian.
    plain = [save(name, array) for name, array in zip("qkvo", (q, k, v, o))]
    record = held(*plain)
    assert record["shape"] == {"batches": 2, "query_heads": 6, "kv_heads": 2, "n_q": 20, "n_kv": 33, "d": 8, "dv": 5}
    view = save("v_view", np.ascontiguousarray(v.transpose()).transpose())
    assert b"'fortran_order': True" in header_of(view)
    held(plain[0], plain[1], view, plain[3])
    big = save("k_big", k.astype(">f4"))
    assert b"'>f4'" in header_of(big)
    held(plain[0], big, view, plain[3])

    # [b, n, h, d], as it is written and as the transposed view of it.
    swapped = [save(name + "_bnhd", np.ascontiguousarray(a.transpose(0, 2, 1, 3)))
               for name, a in zip("qkvo", (q, k, v, o))]
    held(*swapped, "--layout", "bnhd")

    # Halves in and out, big-endian halves too.
    halves = [a.astype(np.float16) for a in (q, k, v)]
    o_half = truth_of(*halves).astype(np.float16)
    half = [save(name + "_half", a) for name, a in zip("qkvo", (*halves, o_half))]
    record = held(*half)
    assert record["arithmetic"] == "fp16-inputs" and record["error"]["max_ulp"] <= 0.5, record["error"]
    held(half[0], half[1], save("v_half_big", halves[2].astype(">f2")), half[3])

    # Archives, stored and deflated.
    for write in (np.savez, np.savez_compressed):
        path = os.path.join(folder, write.__name__ + ".npz")
        write(path, q=q, k=k, v=v, out=o)
        held(path)

    # safetensors: floats by the package where it is installed, bfloat16 by hand.
    path = os.path.join(folder, "case.safetensors")
    if save_file is None:
        print("the safetensors package is missing: its files are written by hand here")
        write_safetensors(path, {n: ("F32", a.shape, a.tobytes())
                                 for n, a in zip(("q", "k", "v", "out"), (q, k, v, o))})
    else:
        save_file({"q": q, "k": k, "v": v, "out": o}, path)
    held(path, "--q", "q", "--k", "k", "--v", "v", "--o", "out")
    bits = [bfloat16(a) for a in (q, k, v)]
    numbers = [number_of(b).reshape(a.shape) for b, a in zip(bits, (q, k, v))]
    o_bits = bfloat16(truth_of(*numbers))
    path = os.path.join(folder, "bf16.safetensors")
    write_safetensors(path, {n: ("BF16", a.shape, b.tobytes())
                             for n, a, b in zip(("q", "k", "v", "out"), (q, k, v, o), (*bits, o_bits))})
    record = held(path)
    assert record["arithmetic"] == "bf16-inputs", record["arithmetic"]

    # Masks that NumPy writes: booleans, causal with lengths, 0 and -inf; without its option each is proved wrong.
    i, j = np.arange(20)[:, None], np.arange(33)[None, :]
    lengths = np.array([33, 25])
    sees = {"mask": (i * 7 + j * j) % 5 < 3,
            "lengths": np.broadcast_to((j < lengths[:, None])[:, None, None, :], (2, 1, 20, 33)),
            "causal": j <= i + 13}
    options = {"mask": ["--mask", save("mask", sees["mask"])],
               "lengths": ["--key-lengths", save("lengths", lengths)],
               "causal": ["--causal", "bottom-right"]}
    for name, permitted in sees.items():
        masked = save("o_" + name, truth_of(q, k, v, permitted).astype(np.float32))
        held(*plain[:3], masked, *options[name])
        refuted(*plain[:3], masked)
    held(*plain[:3], os.path.join(folder, "o_mask.npy"), "--mask",
         save("additive", np.where(sees["mask"], 0, -np.inf).astype(np.float32)[None, None]))
    held(*plain[:3], os.path.join(folder, "o_lengths.npy"), "--key-lengths", "33,25")
    record = refuted(*plain[:3], os.path.join(folder, "o_mask.npy"), *options["mask"], "--mask-true-is-masked")
    assert any("right without --mask-true-is-masked" in line for line in record["looks_like"]), record["looks_like"]

    # A bias for each query head, and a soft cap.
    bias = random.standard_normal((1, 6, 20, 33)).astype(np.float32)
    changed = ["--bias", save("bias", bias), "--softcap", "1.5"]
    masked = save("o_changed", truth_of(q, k, v, sees["mask"], bias, 1.5).astype(np.float32))
    held(*plain[:3], masked, *changed, *options["mask"])
    refuted(*plain[:3], masked, *changed[:2], *options["mask"])
    refuted(*plain[:3], masked, *changed)

    # Wrong ones: the same files must not pass whatever is in them.
    wrong = o.copy()
    wrong[1, 4, 7, 2] += 0.01
    record = refuted(*plain[:3], save("o_wrong", wrong))
    assert record["worst"]["at"] == [1, 4, 7, 2] and record["elements"]["proved wrong"] == 1, record["worst"]
    done = subprocess.run([program, "judge", *swapped], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.endswith("; --layout bnhd fits\n"), done.stderr
    refuted(*plain, "--scale", "0.25")

print("judged rightly")
