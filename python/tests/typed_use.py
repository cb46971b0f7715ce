"""The package as a type checker sees it from outside; mypy --strict reads this file and the package's own."""

import fa1lab
import numpy as np

made = fa1lab.make("n_q=4 n_kv=8 d=2")
result: fa1lab.Result = fa1lab.judge(made.q, made.k, made.v, np.zeros((1, 4, 2), np.float32), causal="top-left", rows="all")
verdict: str = result.verdict
largest: float = result.max
worst: fa1lab.Element | None = result.worst
if worst is not None:
    place: tuple[int, int, int, int] = worst.at
lines: list[str] = result.looks_like
fa1lab.judge(made.q, made.k, made.v, made.q, causal="left")  # type: ignore[arg-type]
