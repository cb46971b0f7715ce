#!/usr/bin/env python3
"""PyTorch's attention back ends held to the truth and the laws of this laboratory, beside its own kernels.

    backends.py inputs --program FA1LAB --folder F            the recipes' tensors, as files; wants fa1lab
    backends.py run    --folder F [--device cuda|cpu] ...     outputs, laws and times; wants PyTorch, not fa1lab
    backends.py judge  --program FA1LAB --folder F --record R the outputs against the truth; wants fa1lab
    backends.py table  R                                      the record R as a table in Markdown

The steps may run on three machines: F travels between them. NumPy is wanted by `run` and `judge`.

Tensors   q [bh, n_q, d], k and v [bh, n_kv, d], fp32, made by `fa1lab run RECIPE --out FILE`; for bf16 and fp16 they are
          rounded to nearest before anything else, and the truth is that of the rounded ones
Judged    of each head every ROWS-th row: only these leave the machine with the GPU. O as it comes, and O with the keys
          permuted, by `fa1lab judge` in the arithmetic fp32, bf16-inputs or fp16-inputs
Laws      ids of `fa1lab list invariants`, asked bit for bit but for key-permutation, which is asked within the bound:
          repeat, batch-neighbours, row-block, query-permutation, key-permutation, value-columns, value-scale-pow2,
          qk-scale-pow2, nan-locality; and row-independence: other query rows get other values
Ours      --kernels LIB: the library fa1_on_device of the CUDA build; its kernels get the same device tensors
Times     one case of --time-shape, made on the device from --seed; median of several, after one call that does not count
          (but where that took most of a second)
Status    0 done, 1 something proved wrong (judge), 2 bad usage, 3 the machine lacks something
"""

import argparse
import ctypes
import hashlib
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import time
import warnings

RECIPES = {
    "normal": "bh=2 n_q=256 n_kv=512 d=64 seed=1",
    "positive": "bh=2 n_q=256 n_kv=512 d=64 v=positive seed=2",
    "alternating": "bh=2 n_q=256 n_kv=512 d=64 v=alternating seed=3",
    "sharp": "bh=2 n_q=256 n_kv=512 d=64 sigma=16 seed=4",
    "outliers": "bh=2 n_q=256 n_kv=512 d=64 dist=outliers sigma=4 v=outliers seed=5",
    "ascending": "bh=2 n_q=256 n_kv=512 d=64 sigma=30 order=ascending seed=6",
    "dominant": "bh=2 n_q=256 n_kv=512 d=64 order=dominant v=pow2 seed=7",
    "tied": "bh=2 n_q=256 n_kv=512 d=64 order=tied v=positive seed=8",
    "integers": "bh=2 n_q=256 n_kv=512 d=64 dist=ints v=index1 seed=9",
    "real-sink": "bh=2 n_q=256 n_kv=512 d=32 recorded=sink-l4h5",
    "real-previous": "bh=2 n_q=256 n_kv=512 d=32 recorded=previous-l0h2",
}
ROWS = 16
ARITHMETIC = {"fp32": "fp32", "bf16": "bf16-inputs", "fp16": "fp16-inputs"}
SAFETENSORS = {"fp32": "F32", "bf16": "BF16", "fp16": "F16"}
BACKEND_NAMES = {"math": "MATH", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION",
                 "cudnn": "CUDNN_ATTENTION"}
SEED = 1


class Lacking(Exception):
    """What this machine does not have."""


# ----------------------------------------------------------------------------------------------------------------------
# Files
# ----------------------------------------------------------------------------------------------------------------------

def read_tensors(path):
    """{name: (dtype, shape, bytes)} and the metadata of a .safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], data[8 + length + begin:8 + length + end])
    return tensors, metadata


def write_tensors(path, tensors, metadata):
    header, blobs, at = {"__metadata__": metadata}, [], 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def fp32_array(tensors, name, path):
    import numpy
    if name not in tensors or tensors[name][0] != "F32":
        raise SystemExit(f"{path}: want an F32 tensor {name}")
    return numpy.frombuffer(tensors[name][2], dtype="<f4").reshape(tensors[name][1])


def text_of(record):
    """JSON with each entry of a list on a line of its own."""
    def value(one):
        if isinstance(one, list) and one and isinstance(one[0], dict):
            return "[\n  " + ",\n  ".join(json.dumps(entry) for entry in one) + "\n ]"
        return json.dumps(one)
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {value(one)}" for key, one in record.items()) + "\n}\n"


def rounded_bytes(array, dtype):
    """The array in another format, to nearest, ties to even. Finite numbers only."""
    import numpy
    if dtype == "fp32":
        return array.astype("<f4").tobytes()
    if dtype == "fp16":
        return array.astype("<f2").tobytes()
    bits = numpy.ascontiguousarray(array, dtype="<f4").view("<u4").astype("<u8")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def digest(*parts):
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part)
    return sha.hexdigest()


# ----------------------------------------------------------------------------------------------------------------------
# inputs
# ----------------------------------------------------------------------------------------------------------------------

def make_inputs(given):
    given.folder.mkdir(parents=True, exist_ok=True)
    for name, recipe in RECIPES.items():
        path = given.folder / f"{name}.safetensors"
        subprocess.run([given.program, "run", recipe, "--out", path], check=True, stdout=subprocess.DEVNULL)
    print(f"{len(RECIPES)} files in {given.folder}")


# ----------------------------------------------------------------------------------------------------------------------
# run: the subjects
# ----------------------------------------------------------------------------------------------------------------------

class TorchBackend:
    """One back end of torch.nn.functional.scaled_dot_product_attention; tensors are [bh, n, d]."""

    def __init__(self, name, tf32=False):
        import torch
        from torch.nn.attention import SDPBackend
        self.torch, self.name, self.whose, self.tf32 = torch, name + (" TF32" if tf32 else ""), "torch", tf32
        self.backend = getattr(SDPBackend, BACKEND_NAMES[name])
        self.dtypes = ("fp32",) if tf32 else ("fp32", "bf16", "fp16")

    def __call__(self, q, k, v, scale):
        from torch.nn.attention import sdpa_kernel
        self.torch.backends.cuda.matmul.allow_tf32 = self.tf32
        with sdpa_kernel(self.backend):
            return self.torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], scale=scale)[0]


class OurKernel:
    """A kernel of the laboratory, from the library fa1_on_device (kernels/on_device.h). Fewer columns than it has are
    filled up with zeros, which is exact."""

    poison = True  # outputs are NaN before a launch

    def __init__(self, library, index):
        import torch
        self.torch, self.library, self.index, self.whose = torch, library, index, "fa1lab"
        self.name = library.fa1_on_device_id(index).decode()
        self.D = library.fa1_on_device_columns(index)
        self.dtypes = ("fp32",)

    def __call__(self, q, k, v, scale):
        torch = self.torch
        dv = v.shape[2]
        q, k, v = (torch.nn.functional.pad(x, (0, self.D - x.shape[2])) if x.shape[2] < self.D else x.contiguous()
                   for x in (q, k, v))
        bh, n_q, d = q.shape
        n_kv = k.shape[1]
        if d != self.D or v.shape[2] != self.D:
            raise RuntimeError(f"{self.name}: d = {d}; it has {self.D} columns")
        o, l, m = (torch.empty(shape, device=q.device) for shape in (q.shape, (bh, n_q), (bh, n_q)))
        if self.poison:
            for x in (o, l, m):
                x.fill_(float("nan"))
        floats = self.library.fa1_on_device_scratch(self.index, bh, n_q, n_kv)
        scratch = torch.empty(max(floats, 1), device=q.device)
        at = [ctypes.c_void_p(x.data_ptr()) for x in (q, k, v, o, l, m, scratch)]
        error = self.library.fa1_on_device_start(self.index, bh, n_q, n_kv, ctypes.c_float(scale), *at)
        if error:
            raise RuntimeError(error.decode())
        # The library launches on the default stream, which is PyTorch's too: what comes later waits.
        return o[..., :dv]


def our_kernels(path, wanted):
    library = ctypes.CDLL(str(path.resolve()))
    library.fa1_on_device_id.restype = ctypes.c_char_p
    library.fa1_on_device_start.restype = ctypes.c_char_p
    library.fa1_on_device_scratch.restype = ctypes.c_longlong
    library.fa1_on_device_scratch.argtypes = [ctypes.c_int] + [ctypes.c_longlong] * 3
    library.fa1_on_device_start.argtypes = ([ctypes.c_int] + [ctypes.c_longlong] * 3 + [ctypes.c_float] +
                                            [ctypes.c_void_p] * 7)
    last = {}  # of each kernel the instance that comes last, which has the largest tile
    index = 0
    while (name := library.fa1_on_device_id(index)) is not None:
        name = name.decode()
        if library.fa1_on_device_columns(index) == 64:
            if not wanted:
                last[name.split(".")[0]] = index
            elif any(name.startswith(one) for one in wanted):
                last[name] = index
        index += 1
    if not last:
        raise SystemExit(f"{path}: has no kernel of 64 columns that begins with {' or '.join(wanted)}")
    return [OurKernel(library, index) for index in last.values()]


# ----------------------------------------------------------------------------------------------------------------------
# run: the laws
# ----------------------------------------------------------------------------------------------------------------------

def same_bits(torch, a, b):
    """NaN equals NaN whatever its payload; zeros of both signs differ."""
    whole = torch.int32 if a.dtype == torch.float32 else torch.int16
    nan = torch.isnan(a)
    return (a.contiguous().view(whole) == b.contiguous().view(whole)) | (nan & torch.isnan(b))


def share_that_differs(torch, a, b):
    return 1.0 - same_bits(torch, a, b).double().mean().item()


class Laws:
    """The laws of one subject on one case. Each gives the share of elements that break it, None where the format cannot
    express what it asks, or what the subject said when it refused."""

    def __init__(self, torch, subject, q, k, v, scale, seed):
        self.torch, self.subject = torch, subject
        self.q, self.k, self.v, self.scale = q, k, v, scale
        self.o = subject(q, k, v, scale)
        self.draw = torch.Generator().manual_seed(seed)
        self.keys = torch.randperm(k.shape[1], generator=self.draw).to(q.device)
        self.o_of_permuted_keys = subject(q, k[:, self.keys], v[:, self.keys], scale)

    def differs(self, a, b):
        return share_that_differs(self.torch, a, b)

    def repeat(self):
        return self.differs(self.subject(self.q, self.k, self.v, self.scale), self.o)

    def batch_neighbours(self):
        alone = [self.subject(self.q[h:h + 1], self.k[h:h + 1], self.v[h:h + 1], self.scale)
                 for h in range(self.q.shape[0])]
        return self.differs(self.torch.cat(alone), self.o)

    def row_block(self):
        """Fewer rows: the first few alone, and one alone."""
        parts = []
        for first, rows in ((0, 1), (0, self.q.shape[1] // 3), (5, 77)):
            o = self.subject(self.q[:, first:first + rows].contiguous(), self.k, self.v, self.scale)
            parts.append(self.differs(o, self.o[:, first:first + rows]))
        return max(parts)

    def row_independence(self):
        """Other rows get other values; as many rows as before."""
        kept = self.torch.arange(0, self.q.shape[1], 3, device=self.q.device)
        q = -0.5 * self.q
        q[:, kept] = self.q[:, kept]
        return self.differs(self.subject(q, self.k, self.v, self.scale)[:, kept], self.o[:, kept])

    def query_permutation(self):
        rows = self.torch.randperm(self.q.shape[1], generator=self.draw).to(self.q.device)
        return self.differs(self.subject(self.q[:, rows], self.k, self.v, self.scale), self.o[:, rows])

    def value_columns(self):
        columns = self.torch.randperm(self.v.shape[2], generator=self.draw).to(self.q.device)
        return self.differs(self.subject(self.q, self.k, self.v[..., columns].contiguous(), self.scale),
                            self.o[..., columns])

    def value_scale_pow2(self):
        torch, worst = self.torch, 0.0
        normal = self.o.abs() >= torch.finfo(self.o.dtype).tiny  # a subnormal O has fewer bits than the scaled one
        for factor in (8.0, -1.0):
            v = factor * self.v
            if not torch.isfinite(v).all():
                return None
            o = self.subject(self.q, self.k, v, self.scale)
            broken = ~same_bits(torch, o, factor * self.o) & normal
            worst = max(worst, broken.double().mean().item())
        return worst

    def qk_scale_pow2(self):
        torch = self.torch
        q, k = 4.0 * self.q, 0.25 * self.k
        if not torch.isfinite(q).all():
            return None
        worst = self.differs(self.subject(q, self.k, self.v, 0.25 * self.scale), self.o)
        if bool((4.0 * k == self.k).all()):  # subnormal keys lose bits
            worst = max(worst, self.differs(self.subject(q, k, self.v, self.scale), self.o))
        return worst

    def nan_locality(self):
        torch, head, broken = self.torch, 1, []
        for which, (row, column) in (("q", (100, 0)), ("k", (300, 3)), ("v", (301, 9))):
            tensors = {"q": self.q.clone(), "k": self.k.clone(), "v": self.v.clone()}
            tensors[which][head, row, column] = float("nan")
            o = self.subject(tensors["q"], tensors["k"], tensors["v"], self.scale)
            want = self.o.clone()
            want[(head, row) if which == "q" else (head,) if which == "k" else
                 (head, slice(None), column)] = float("nan")
            broken.append(self.differs(o, want))
        return max(broken)

    def all(self):
        laws = {"repeat": self.repeat, "batch-neighbours": self.batch_neighbours, "row-block": self.row_block,
                "row-independence": self.row_independence, "query-permutation": self.query_permutation,
                "value-columns": self.value_columns, "value-scale-pow2": self.value_scale_pow2,
                "qk-scale-pow2": self.qk_scale_pow2, "nan-locality": self.nan_locality}
        def asked(law):
            try:
                return law()
            except RuntimeError as error:
                return str(error).split("\n")[0]
        return {name: asked(law) for name, law in laws.items()}


# ----------------------------------------------------------------------------------------------------------------------
# run: times, and the step itself
# ----------------------------------------------------------------------------------------------------------------------

def time_of(torch, call, device):
    """Median milliseconds, and of how many calls; slow ones are called less often."""
    def once():
        if device == "cpu":
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e3
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end)
    first = once()
    calls = 20 if first < 50 else 5 if first < 600 else 0
    times = [once() for _ in range(calls)] or [first]
    return {"median_ms": statistics.median(times), "least_ms": min(times), "calls": len(times)}


def driver_of(device):
    if device == "cpu":
        return None
    said = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                          text=True, check=False)
    return said.stdout.split("\n")[0].strip() or None


def environment_of(torch, given):
    import numpy
    cuda = given.device == "cuda"
    return {"device": torch.cuda.get_device_name(0) if cuda else "cpu", "torch": torch.__version__,
            "numpy": numpy.__version__, "python": sys.version.split()[0], "cuda": torch.version.cuda if cuda else None,
            "cudnn": torch.backends.cudnn.version() if cuda else None, "driver": driver_of(given.device),
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
            "threads": None if cuda else torch.get_num_threads(),
            "kernels_sha256": digest(given.kernels.read_bytes()) if given.kernels else None}


def why_not(torch, subject, tensors, scale):
    """Empty where the subject takes such tensors."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            subject(*tensors, scale)
            if tensors[0].is_cuda:
                torch.cuda.synchronize()
            return ""
        except RuntimeError as error:
            reasons = [str(one.message).split("(Triggered")[0].strip() for one in said]
            # Back ends that were not asked are said to be disabled: no reason of this one.
            reasons = [one for one in reasons if "because:" not in one and "disabled" not in one]
            return "; ".join(dict.fromkeys(reasons)) or str(error).split("\n")[0]


def run(given):
    try:
        import numpy
        import torch
    except ImportError as error:
        raise Lacking(f"run: {error}; want PyTorch and NumPy") from error
    if given.device == "cuda" and not torch.cuda.is_available():
        raise Lacking("run: PyTorch sees no CUDA device; want --device cpu")
    if given.kernels and given.device == "cpu":
        raise SystemExit("--kernels: holds CUDA kernels; want --device cuda")
    started = time.time()
    dtype_of = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    subjects = [TorchBackend(name) for name in BACKEND_NAMES]
    if given.device == "cuda":
        subjects.append(TorchBackend("math", tf32=True))
    if given.kernels:
        subjects += our_kernels(given.kernels, given.kernel)
    out = given.out or given.folder
    out.mkdir(parents=True, exist_ok=True)
    missing, results, times, takers = [], [], [], {}
    for dtype in ARITHMETIC:
        probe = torch.ones((2, 256, 64), dtype=dtype_of[dtype], device=given.device)
        takers[dtype] = []
        for subject in subjects:
            if dtype not in subject.dtypes:
                continue
            why = why_not(torch, subject, (probe, probe, probe), 0.125)
            if why:
                missing.append({"backend": subject.name, "dtype": dtype, "why": why})
            else:
                takers[dtype].append(subject)
    for name in RECIPES:
        path = given.folder / f"{name}.safetensors"
        if not path.exists():
            raise SystemExit(f"{path}: is not there; want the files of `backends.py inputs`")
        tensors, metadata = read_tensors(path)
        arrays = [fp32_array(tensors, one, path) for one in ("q", "k", "v")]
        scale = float.fromhex(metadata["scale"])
        for dtype in ARITHMETIC:
            q, k, v = (torch.from_numpy(x.copy()).to(given.device).to(dtype_of[dtype]) for x in arrays)
            as_bytes = [x.cpu().contiguous().view(torch.uint8).numpy().tobytes() for x in (q, k, v)]
            outputs = {}
            for subject in takers[dtype]:
                laws = Laws(torch, subject, q, k, v, scale, SEED)
                results.append({"recipe": name, "dtype": dtype, "backend": subject.name, "whose": subject.whose,
                                "laws": laws.all(), "not_finite": int((~torch.isfinite(laws.o)).sum())})
                for what, o in (("o", laws.o), ("keys_permuted", laws.o_of_permuted_keys)):
                    rows = o[:, ::ROWS].contiguous().cpu()
                    outputs[f"{subject.name}/{what}"] = (SAFETENSORS[dtype], rows.shape,
                                                         rows.view(torch.uint8).numpy().tobytes())
            write_tensors(out / f"{name}.{dtype}.out.safetensors", outputs, {"inputs": digest(*as_bytes)})
    shape = [int(one) for one in given.time_shape.split("x")]
    for dtype in ARITHMETIC:
        draw = torch.Generator(device=given.device).manual_seed(SEED)
        q, k, v = torch.randn((3, *shape), generator=draw, device=given.device).to(dtype_of[dtype])
        for subject in takers[dtype]:
            subject.poison = False
            spent = time_of(torch, lambda: subject(q, k, v, 0.125), given.device)
            times.append({"dtype": dtype, "backend": subject.name, "whose": subject.whose, "shape": given.time_shape,
                          **spent})
    record = {"what": "backends", "environment": environment_of(torch, given),
              "command": [pathlib.Path(word).name for word in sys.argv], "seed": SEED, "every_row": ROWS,
              "recipes": RECIPES, "missing": missing, "results": results, "times": times,
              "seconds": round(time.time() - started, 1)}
    (out / "run.json").write_text(text_of(record))
    print_run(record)


def print_run(record):
    broken, count = {}, {}
    for one in record["results"]:
        key = (one["backend"], one["dtype"])
        count[key] = len(one["laws"])
        broken.setdefault(key, set()).update(law for law, share in one["laws"].items() if share)
    spent = {(one["backend"], one["dtype"]): one["median_ms"] for one in record["times"]}
    for key, laws in broken.items():
        print(f"{key[0]:34} {key[1]:5} {spent[key]:9.3f} ms  {count[key] - len(laws)} of {count[key]} laws; "
              f"broken: {', '.join(sorted(laws)) or '-'}")
    for one in record["missing"]:
        print(f"{one['backend']:34} {one['dtype']:5} not there: {one['why'][:120]}")
    print(f"{record['seconds']} s on {record['environment']['device']}")


# ----------------------------------------------------------------------------------------------------------------------
# judge
# ----------------------------------------------------------------------------------------------------------------------

def judged_case(given, name, dtype):
    """Results of one recipe in one dtype: {output: record of fa1lab judge}."""
    outputs, about = read_tensors(given.folder / f"{name}.{dtype}.out.safetensors")
    if not outputs:
        return {}
    path = given.folder / f"{name}.safetensors"
    tensors, metadata = read_tensors(path)
    q, k, v = (fp32_array(tensors, one, path) for one in ("q", "k", "v"))
    if digest(*(rounded_bytes(x, dtype) for x in (q, k, v))) != about["inputs"]:
        raise SystemExit(f"{path}: its {dtype} tensors are not those that the outputs were made of")
    kind = SAFETENSORS[dtype]
    q = q[:, ::ROWS]
    case = {one: (kind, x.shape, rounded_bytes(x, dtype)) for one, x in (("q", q), ("k", k), ("v", v))}
    for output, (found, shape, data) in outputs.items():
        if found != kind or list(shape) != list(q.shape[:2]) + [v.shape[2]]:
            raise SystemExit(f"{name}.{dtype}.out.safetensors: {output} is {found} {shape}; want {kind} {q.shape}")
        case[output] = (kind, shape, data)
    together = given.folder / f"{name}.{dtype}.case.safetensors"
    write_tensors(together, case, {})
    command = [given.program, "judge", together, "--scale", repr(float.fromhex(metadata["scale"])), "--rows", "all",
               "--arithmetic", ARITHMETIC[dtype], "--json"]
    for output in outputs:
        command += ["--o", output]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"fa1lab judge {together}: status {done.returncode}: {done.stderr.strip()}")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    if [one["what"] for one in records] != ["judge"] * len(outputs):
        raise SystemExit(f"fa1lab judge {together}: {len(records)} records of {len(outputs)} outputs")
    return dict(zip(outputs, records))


def judge(given):
    record = json.loads((given.folder / "run.json").read_text())
    wrong = False
    for name in record["recipes"]:
        for dtype in ARITHMETIC:
            judged = judged_case(given, name, dtype)
            for one in record["results"]:
                if one["recipe"] == name and one["dtype"] == dtype:
                    o, permuted = judged[one["backend"] + "/o"], judged[one["backend"] + "/keys_permuted"]
                    one.update({key: o[key] for key in ("verdict", "error", "plain", "elements", "arithmetic")})
                    one["laws"]["key-permutation"] = float(permuted["verdict"] == "proved wrong")
                    one["looks_like"] = o["looks_like"]
                    wrong |= "proved wrong" in (o["verdict"], permuted["verdict"])
    given.record.parent.mkdir(parents=True, exist_ok=True)
    given.record.write_text(text_of(record))
    print(table_of(record))
    return 1 if wrong else 0


# ----------------------------------------------------------------------------------------------------------------------
# table
# ----------------------------------------------------------------------------------------------------------------------

def table_of(record):
    """One row for each back end and dtype that the record has. RMS and max are of the recipe `normal`, bias is the mean
    error of `positive`, in 2^-24 sum p|v|; RMS / plain is the median over the recipes, and what is worst, wrong or broken
    is of all of them."""
    rows = {}
    for one in record["results"]:
        rows.setdefault((one["dtype"], one["backend"]), []).append(one)
    spent = {(one["dtype"], one["backend"]): one["median_ms"] for one in record["times"]}
    lines = ["| kernel | dtype | RMS | RMS / plain | max | bias | worst error / bound | proved wrong | laws broken "
             "| ms |", "|---|---|---:|---:|---:|---:|---:|---:|---|---:|"]
    for (dtype, backend), cases in rows.items():
        by = {one["recipe"]: one for one in cases}
        ratios = [one["error"]["rms"] / one["plain"]["rms"] for one in cases if one["plain"]["rms"]]
        worst = max(cases, key=lambda one: one["error"]["max_fraction"])
        broken = sorted({law for one in cases for law, share in one["laws"].items() if share})
        refuted = sum(one["elements"]["proved wrong"] for one in cases)
        lines.append(
            f"| {'`' + backend + '`' if cases[0]['whose'] == 'fa1lab' else 'torch ' + backend} | {dtype} "
            f"| {by['normal']['error']['rms']:.3g} | {statistics.median(ratios):.2f} "
            f"| {by['normal']['error']['max']:.3g} | {by['positive']['error']['mean']:+.2g} "
            f"| {worst['error']['max_fraction']:.2g} ({worst['recipe']}) | {refuted} | {', '.join(broken) or 'none'} "
            f"| {spent[dtype, backend]:.3g} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    step = {name: steps.add_parser(name) for name in ("inputs", "run", "judge", "table")}
    for name in ("inputs", "judge"):
        step[name].add_argument("--program", type=pathlib.Path, required=True, help="fa1lab")
    for name in ("inputs", "run", "judge"):
        step[name].add_argument("--folder", type=pathlib.Path, required=True, help="tensors, and what became of them")
    step["run"].add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    step["run"].add_argument("--out", type=pathlib.Path, help="where the outputs go [the folder]")
    step["run"].add_argument("--kernels", type=pathlib.Path, help="the library fa1_on_device of the CUDA build")
    step["run"].add_argument("--kernel", action="append", default=[],
                             help="ids of its kernels begin so; may be given again [the largest tile of each]")
    step["run"].add_argument("--time-shape", default="16x4096x64", help="heads x rows and keys x columns")
    step["judge"].add_argument("--record", type=pathlib.Path, required=True, help="the record to write")
    step["table"].add_argument("record", type=pathlib.Path)
    given = parser.parse_args()
    try:
        if given.step == "inputs":
            make_inputs(given)
        elif given.step == "run":
            run(given)
        elif given.step == "judge":
            return judge(given)
        else:
            print(table_of(json.loads(given.record.read_text())))
    except Lacking as error:
        print(error, file=sys.stderr)
        return 3
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
            return 2
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
