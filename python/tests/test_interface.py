"""The assertion, the text, the refusals, recipes."""

import os
import signal
import subprocess
import sys
import threading
import time

import fa1lab
import numpy as np
import pytest
from formula import attention, numbers
from test_right_outputs import OnlyDLPack

q, k, v = numbers((3, 16, 8), (3, 40, 8), (3, 40, 8))
out = attention(q, k, v).astype(np.float32)
program = os.environ.get("FA1LAB_PROGRAM")


def test_the_assertion_is_silent_where_the_output_is_right():
    assert fa1lab.assert_attention(q, k, v, out).verdict == "proved right"


def test_the_assertion_raises_with_what_judge_prints():
    wrong = attention(q, k, v, scale=1.0).astype(np.float32)

    with pytest.raises(AssertionError) as raised:
        fa1lab.assert_attention(q, k, v, wrong)

    assert str(raised.value) == str(fa1lab.judge(q, k, v, wrong))
    assert "\nverdict     proved wrong: its error is beyond its bound\n" in str(raised.value)
    assert "\nlooks like  scores are not scaled" in str(raised.value)
    assert "\033" not in str(raised.value)


def test_the_assertion_does_not_hold_where_nothing_is_decided():
    huge = q * np.float32(1e30)

    with pytest.raises(AssertionError, match="undecided"):
        fa1lab.assert_attention(huge, k, v, out)
    assert fa1lab.assert_attention(huge, k, v, out, allow_undecided=True).verdict == "undecided"


def test_the_assertion_does_not_hold_for_nothing():
    none = np.zeros((3, 0, 8), np.float32)

    with pytest.raises(AssertionError, match="no output element"):
        fa1lab.assert_attention(none, k, v, none)


def test_pytest_shows_the_line_of_the_test_and_the_whole_text(tmp_path):
    (tmp_path / "test_mine.py").write_text(
        "import numpy as np, fa1lab\n"
        "def test_mine():\n"
        "    q = np.eye(4, dtype=np.float32)\n"
        "    fa1lab.assert_attention(q, q, q, q)\n")

    done = subprocess.run([sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
                          capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert ">       fa1lab.assert_attention(q, q, q, q)" in done.stdout and "__init__.py" not in done.stdout
    assert "E       verdict     proved wrong" in done.stdout, done.stdout


@pytest.mark.skipif(program is None, reason="FA1LAB_PROGRAM does not say where the program fa1lab is")
@pytest.mark.parametrize("options", [
    {}, {"scale": 0.25}, {"causal": "top-left"}, {"causal": "bottom-right", "window": (5, 0)}, {"key_lengths": [30]},
    {"softcap": 2.0}, {"arithmetic": "tf32", "rows": 5}, {"layout": "bhnd"}])
def test_it_prints_what_the_command_prints(options, tmp_path):
    arrays = [a[None] for a in (q, k, v, attention(q, k, v, permitted=np.arange(40) < 39).astype(np.float32))]
    for name, one in zip(("q", "k", "v", "out"), arrays):
        with open(tmp_path / name, "wb") as file:
            np.save(file, one)
    words = []
    for name, value in options.items():
        value = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        words += ["--" + name.replace("_", "-"), value]

    done = subprocess.run([program, "judge", "q", "k", "v", "out", *words], cwd=tmp_path, capture_output=True,
                          text=True, check=False)

    assert done.returncode in (0, 1), done.stderr
    result = fa1lab.judge(*arrays, **options)
    assert str(result) == done.stdout
    assert bool(result) == (done.returncode == 0)


@pytest.mark.skipif(program is None, reason="FA1LAB_PROGRAM does not say where the program fa1lab is")
def test_recipes_make_the_numbers_of_the_program():
    recipe = "bh=2 n_q=3 n_kv=5 d=4 dv=2 seed=11 sigma=2"
    made = fa1lab.make(recipe)
    assert (made.q.shape, made.k.shape, made.v.shape) == ((2, 3, 4), (2, 5, 4), (2, 5, 2))
    assert made.q.dtype == np.float32 and made.scale == 0.5 and made.recipe == recipe

    # The program prints the inputs of an element that it judged.
    done = subprocess.run([program, "repro", recipe], capture_output=True, text=True, check=False)
    values = [float.fromhex(word.strip(",")) for line in done.stdout.splitlines() if " q[" in line
              for word in line.partition("] = ")[2].split()]
    assert len(values) == 4 and any(np.array_equal(row, values) for row in made.q.reshape(-1, 4)), done.stdout


def test_what_make_gives_is_judged():
    made = fa1lab.make("bh=2 n_q=16 n_kv=64 d=8 sigma=3 order=ascending")
    right = attention(made.q, made.k, made.v, scale=made.scale).astype(np.float32)

    assert fa1lab.judge(made.q, made.k, made.v, right, scale=made.scale).verdict == "proved right"
    assert fa1lab.make(made.recipe).k.tobytes() == made.k.tobytes()


def test_arrays_that_make_gave_outlive_the_rest():
    k_alone = fa1lab.make("n_q=1 n_kv=1000 d=8 K=1*").k

    assert k_alone.flags.writeable and (k_alone == 1).all()


REFUSED = [
    (ValueError, r"^recipe: unknown key 'bogus': want one of bh", lambda: fa1lab.make("bogus=3")),
    (TypeError, r"^recipe: is of type int; want text", lambda: fa1lab.make(3)),
    (TypeError, r"^q: is of type list, whose memory cannot be read; want an array",
     lambda: fa1lab.judge(q.tolist(), k, v, out)),
    (TypeError, r"^k: is an array of a type \(DLPack code 5, 64 bits\) that is not read; want float64",
     lambda: fa1lab.judge(q, k.astype(np.complex64), v, out)),
    (ValueError, r"^k: is of type i32; want f64, f32", lambda: fa1lab.judge(q, k.astype(np.int32), v, out)),
    (ValueError, r"^q has 8 columns and k has 7 .*; want the same$", lambda: fa1lab.judge(q, k[..., :7], v, out)),
    (ValueError, r"^out: has shape \[16, 8\]; want 3 axes as q has$", lambda: fa1lab.judge(q, k, v, out[0])),
    (ValueError, r"; layout bnhd fits$",
     lambda: fa1lab.judge(*(np.zeros(s, np.float32) for s in [(1, 3, 4, 2), (1, 5, 2, 2), (1, 5, 2, 2), (1, 3, 4, 2)]))),
    (ValueError, r"^out: is an empty list", lambda: fa1lab.judge(q, k, v, [])),
    (ValueError, r"^layout: is 'nbhd'; want one of bhnd, bnhd$", lambda: fa1lab.judge(q, k, v, out, layout="nbhd")),
    (TypeError, r"^causal: is True; want one of top-left, bottom-right$",
     lambda: fa1lab.judge(q, k, v, out, causal=True)),
    (ValueError, r"^arithmetic: is 'fp4'; want one of fp32, tf32", lambda: fa1lab.judge(q, k, v, out, arithmetic="fp4")),
    (ValueError, r"^empty_row: is 'one'", lambda: fa1lab.judge(q, k, v, out, empty_row="one")),
    (ValueError, r"^scale: is inf; want a finite fp32 number$", lambda: fa1lab.judge(q, k, v, out, scale=float("inf"))),
    (ValueError, r"^scale: is 1e\+39; want a finite fp32 number$", lambda: fa1lab.judge(q, k, v, out, scale=1e39)),
    (TypeError, r"^scale: is 'a lot'; want a number$", lambda: fa1lab.judge(q, k, v, out, scale="a lot")),
    (ValueError, r"^softcap: is 0.0; want a number above 0$", lambda: fa1lab.judge(q, k, v, out, softcap=0.0)),
    (TypeError, r"^window: is 3; want \(left, right\)", lambda: fa1lab.judge(q, k, v, out, window=3)),
    (ValueError, r"^window: is -2; want a whole number from -1", lambda: fa1lab.judge(q, k, v, out, window=(-2, 0))),
    (TypeError, r"^rows: is 'some'; want a whole number from 1 on or 'all'$",
     lambda: fa1lab.judge(q, k, v, out, rows="some")),
    (ValueError, r"^threads: is 0; want a whole number from 1", lambda: fa1lab.judge(q, k, v, out, threads=0)),
    (ValueError, r"^key_lengths: is -1; want", lambda: fa1lab.judge(q, k, v, out, key_lengths=[-1])),
    (TypeError, r"^key_lengths: is 1.5; want", lambda: fa1lab.judge(q, k, v, out, key_lengths=[1.5])),
    (ValueError, r"41", lambda: fa1lab.judge(q, k, v, out, key_lengths=[41])),
    (ValueError, r"^base2_lse: there is no lse; want lse too$", lambda: fa1lab.judge(q, k, v, out, base2_lse=True)),
    (ValueError, r"^mask_true_is_masked: there is no mask", lambda: fa1lab.judge(q, k, v, out, mask_true_is_masked=True)),
    (ValueError, r"^tanh_approx: there is no softcap", lambda: fa1lab.judge(q, k, v, out, tanh_approx=True)),
    (ValueError, r"^mask: holds -?1; want 0 or -inf in a mask of type f32, or bias",
     lambda: fa1lab.judge(q, k, v, out, mask=np.full((16, 40), -1, np.float32))),
    (ValueError, r"^v: an axis runs backwards through memory; want a copy of it$",
     lambda: fa1lab.judge(q, k, OnlyDLPack(v[:, ::-1]), out)),
    (ValueError, r"^k: its elements overlap in memory; want a copy of it$",
     lambda: fa1lab.judge(q, np.lib.stride_tricks.sliding_window_view(np.zeros((3, 47), np.float32), 8, axis=1), v, out)),
    (TypeError, r"positional", lambda: fa1lab.judge(q, k, v, out, 0.5)),
]


@pytest.mark.parametrize("error, says, call", REFUSED, ids=[says for _, says, _ in REFUSED])
def test_what_does_not_fit_is_refused_by_name(error, says, call):
    with pytest.raises(error, match=says) as raised:
        call()
    assert raised.type is error and "\n" not in str(raised.value)


def test_memory_of_another_device_is_refused():
    class OnAnotherDevice(OnlyDLPack):
        device = "cuda:0"

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(ValueError, match="^v: lies on device cuda:0; want it in the CPU's memory"):
        fa1lab.judge(q, k, OnAnotherDevice(v), out)


def large():
    made = fa1lab.make("bh=64 n_q=32 n_kv=256 d=16")
    return made.q, made.k, made.v, attention(made.q, made.k, made.v).astype(np.float32)


def test_other_threads_go_on_while_one_judges():
    arrays, counted, judging = large(), 0, True

    def judge():
        nonlocal judging
        fa1lab.judge(*arrays, threads=1)
        judging = False

    thread = threading.Thread(target=judge)
    thread.start()
    while judging:
        counted += 1
        time.sleep(0.001)
    thread.join()

    assert counted > 10


def test_two_threads_judge_at_once():
    texts = {}

    def judge(name, one):
        texts[name] = str(fa1lab.judge(q, k, v, one))

    threads = [threading.Thread(target=judge, args=(n, one)) for n, one in enumerate([out, out + 1] * 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(texts.values())) == 2 and len(texts) == 8


def test_control_c_is_heard_within_a_call():
    arrays = large()
    start = time.process_time()
    fa1lab.judge(*arrays, threads=1)
    whole = time.process_time() - start
    assert whole > 0.05, "too short to be interrupted"

    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    try:
        start = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, whole / 10)  # of processor time, as loaded as the machine may be
        with pytest.raises(KeyboardInterrupt):
            fa1lab.judge(*arrays, threads=1)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)

    assert time.process_time() - start < whole / 2
