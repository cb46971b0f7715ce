"""reports/backends/backends.py: what it says of right and of wrong outputs, and, where PyTorch is there, that each of its
laws is broken by a subject that breaks it and by none that does not. Status 4: NumPy is missing, and nothing was tested."""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 4

parser = argparse.ArgumentParser()
parser.add_argument("--program", required=True)
program = os.path.abspath(parser.parse_args().program)
script = pathlib.Path(__file__).resolve().parent.parent / "backends" / "backends.py"

try:
    import numpy as np
except ImportError:
    print("skipped: there is no NumPy (Debian: python3-numpy)")
    sys.exit(SKIPPED)

spec = importlib.util.spec_from_file_location("backends", script)
backends = importlib.util.module_from_spec(spec)
spec.loader.exec_module(backends)


def call(*words, status=0):
    done = subprocess.run([sys.executable, "-B", script, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def rounded(array, dtype):
    """As backends.rounded_bytes does, but as numbers."""
    data = backends.rounded_bytes(array, dtype)
    if dtype == "bf16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(array.shape)
    return np.frombuffer(data, "<f2" if dtype == "fp16" else "<f4").astype("<f4").reshape(array.shape)


def attention(q, k, v, scale):
    """The formula, in double."""
    q, k, v = (x.astype(float) for x in (q, k, v))
    s = scale * np.einsum("hid,hjd->hij", q, k)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return np.einsum("hij,hjd->hid", p / p.sum(axis=-1, keepdims=True), v)


ASKED = {name: backends.RECIPES[name] for name in ("normal", "positive", "dominant", "real-sink")}


def outputs_of_a_run(folder):
    """What `backends.py run` leaves: a right subject, one whose scale is a little off, and one that breaks a law."""
    results = []
    for name in ASKED:
        path = folder / f"{name}.safetensors"
        tensors, metadata = backends.read_tensors(path)
        scale = float.fromhex(metadata["scale"])
        for dtype in backends.ARITHMETIC:
            arrays = [backends.fp32_array(tensors, one, path) for one in ("q", "k", "v")]
            q, k, v = (rounded(x, dtype) for x in arrays)
            q = q[:, ::backends.ROWS]
            right, off = attention(q, k, v, scale), attention(1.05 * q, k, v, scale)
            outputs = {}
            for subject, o, permuted in (("right", right, right), ("off", off, right), ("order", right, off)):
                for what, values in (("o", o), ("keys_permuted", permuted)):
                    outputs[f"{subject}/{what}"] = (backends.SAFETENSORS[dtype], values.shape,
                                                    backends.rounded_bytes(values.astype("<f4"), dtype))
                results.append({"recipe": name, "dtype": dtype, "backend": subject, "whose": "torch", "not_finite": 0,
                                "laws": {"repeat": 0.0, "row-block": 0.25 if subject == "order" else None}})
            inputs = backends.digest(*(backends.rounded_bytes(x, dtype) for x in arrays))
            backends.write_tensors(folder / f"{name}.{dtype}.out.safetensors", outputs, {"inputs": inputs})
    times = [{"dtype": dtype, "backend": subject, "median_ms": 1.5} for dtype in backends.ARITHMETIC
             for subject in ("right", "off", "order")]
    (folder / "run.json").write_text(json.dumps({"what": "backends", "recipes": ASKED, "results": results,
                                                 "times": times, "missing": []}))


def judged_rightly():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        assert "11 files" in call("inputs", "--program", program, "--folder", folder)
        done = subprocess.run([program, "judge", folder / "real-sink.safetensors", "--json"], capture_output=True,
                              text=True, check=True)  # the kernel's own o is in it
        assert json.loads(done.stdout)["verdict"] == "proved right", done.stdout
        outputs_of_a_run(folder)

        said = call("judge", "--program", program, "--folder", folder, "--record", folder / "record.json", status=1)

        record = json.loads((folder / "record.json").read_text())
        assert len(record["results"]) == 3 * 3 * len(ASKED)
        for one in record["results"]:
            wrong = "proved wrong"
            insensitive = one["recipe"] == "dominant"  # its weights do not depend on the scale
            if one["backend"] == "right":
                assert one["verdict"] == "proved right" and one["laws"]["key-permutation"] == 0.0, one
            elif one["backend"] == "off" and one["dtype"] == "fp32" and not insensitive:
                assert one["verdict"] == wrong and one["laws"]["key-permutation"] == 0.0, one
            elif one["backend"] == "order" and one["dtype"] == "fp32" and not insensitive:
                assert one["verdict"] != wrong and one["laws"]["key-permutation"] == 1.0, one
        table = call("table", folder / "record.json")
        assert table in said
        rows = {line.split(" | ")[0].removeprefix("| torch "): line for line in table.splitlines() if "fp32" in line}
        assert rows["right"].endswith("| 0 | none | 1.5 |"), rows
        assert "key-permutation, row-block" in rows["order"], rows

        path = folder / "normal.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        said = call("judge", "--program", program, "--folder", folder, "--record", folder / "record.json", status=2)
        assert "normal.safetensors: its fp32 tensors are not those that the outputs were made of" in said, said


class Right:
    """Attention in double, row by row and column by column, whose bits depend on nothing they should not."""

    def __init__(self, torch):
        self.torch = torch

    def __call__(self, q, k, v, scale):
        q64, k64, v64 = (x.double() for x in (q, k, v))
        s = sum(q64[..., i, None] * k64[:, None, :, i] for i in range(q.shape[2])) * scale
        p = self.torch.exp(s - s.amax(-1, keepdim=True))
        l = p.cumsum(-1)[..., -1:]
        return ((p[..., None] * v64[:, None]).cumsum(2)[:, :, -1] / l).to(q.dtype)


def faulty(torch, right):
    """{law: a subject that breaks it}"""
    calls = [0]

    def forgets(q, k, v, scale):
        calls[0] += 1
        return right(q, k, v, scale) * (1.0 + 2.0**-20 * calls[0])

    def neighbours(q, k, v, scale):
        return right(q, k, v, scale) * (1.0 + 2.0**-20 * (len(q) - 1))

    def blocks(q, k, v, scale):
        return right(q, k, v, scale) * (1.0 + 2.0**-20 * (q.shape[1] % 2))

    def rows(q, k, v, scale):
        return right(q, k, v, scale) + 2.0**-10 * q.mean(1, keepdim=True)

    def places(q, k, v, scale):
        return right(q, k, v, scale) * (1.0 + 2.0**-20 * torch.arange(q.shape[1])[None, :, None])

    def columns(q, k, v, scale):
        return right(q, k, v, scale) * (1.0 + 2.0**-20 * torch.arange(v.shape[2]))

    def units(q, k, v, scale):
        return right(q, k, torch.round(v * 64.0) / 64.0, scale)

    def cut(q, k, v, scale):
        return right(torch.round(q * 64.0) / 64.0, k, v, scale)

    def spreads(q, k, v, scale):
        o = right(q, k, v, scale)
        return torch.where(torch.isnan(o).any(), torch.full_like(o, float("nan")), o)

    return {"repeat": forgets, "batch-neighbours": neighbours, "row-block": blocks, "row-independence": rows,
            "query-permutation": places, "value-columns": columns, "value-scale-pow2": units, "qk-scale-pow2": cut,
            "nan-locality": spreads}


def laws_have_teeth(torch):
    draw = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn((2, n, 12), generator=draw) for n in (120, 310, 310))
    right = Right(torch)
    assert not any(backends.Laws(torch, right, q, k, v, 0.25, 1).all().values())
    subjects = faulty(torch, right)
    asked = backends.Laws(torch, right, q, k, v, 0.25, 1).all()
    assert subjects.keys() == asked.keys(), asked.keys() ^ subjects.keys()
    for law, subject in subjects.items():
        broken = {name for name, share in backends.Laws(torch, subject, q, k, v, 0.25, 1).all().items() if share}
        assert law in broken, (law, broken)
        assert law == "repeat" or "repeat" not in broken, (law, broken)


judged_rightly()
try:
    import torch
except ImportError:
    print("the laws were not asked: there is no PyTorch")
else:
    laws_have_teeth(torch)
