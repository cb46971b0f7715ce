"""The package as a stranger meets it: pip builds it from this checkout into a fresh venv, and pytest and mypy ask it.
--torch: PyTorch goes into that venv, too (some 500 MB), where FA1LAB_TEST_TORCH=1 asks for it, and its outputs are
judged. Status 4: nothing was tested; the last line says why."""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import venv

SKIPPED = 4

parser = argparse.ArgumentParser()
parser.add_argument("--program", required=True, help="fa1lab, whose words the package's are compared with")
parser.add_argument("--folder", required=True, help="where the venv goes")
parser.add_argument("--compiler", required=True, help="that of the rest of the build, whose results ccache may have")
parser.add_argument("--torch", action="store_true")
options = parser.parse_args()

tests = os.path.dirname(os.path.abspath(__file__))
checkout = os.path.dirname(os.path.dirname(tests))
place = os.path.join(options.folder, "venv")
python = os.path.join(place, "bin", "python")
settings = {**os.environ, "FA1LAB_PROGRAM": os.path.abspath(options.program), "PYTHONDONTWRITEBYTECODE": "1",
            "CXX": options.compiler}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def holds(*words):
    return subprocess.run([python, "-m", *words], cwd=options.folder, env=settings, check=False).returncode == 0


def fetched(*packages):
    if not holds("pip", "install", "--quiet", *packages):
        skip(f"pip cannot install {', '.join(packages)} (above)")


def pytest(*words):
    return holds("pytest", "-p", "no:cacheprovider", "--durations=3", *words)


if options.torch:
    if os.environ.get("FA1LAB_TEST_TORCH") != "1":
        skip("FA1LAB_TEST_TORCH=1 installs PyTorch and judges its outputs")
    if not os.path.exists(python):
        skip("the package was not installed")
    fetched("torch")
    sys.exit(0 if pytest("-rsP", os.path.join(tests, "test_torch.py")) else 1)

header = os.path.join(sysconfig.get_path("include"), "Python.h")
if not os.path.exists(header):
    skip(f"there is no {header} (Debian: python3-dev)")
shutil.rmtree(place, ignore_errors=True)
try:
    venv.create(place, with_pip=True)
except (subprocess.CalledProcessError, OSError) as error:
    shutil.rmtree(place, ignore_errors=True)
    skip(f"no venv can be made here (Debian: python3-venv): {error}")
# What comes from the registry first: that it cannot be reached says nothing about the package.
fetched("scikit-build-core>=0.10", "nanobind>=2.7", "numpy", "pytest", "mypy", "ml_dtypes")
if not holds("pip", "install", "--quiet", "--no-build-isolation", "--no-deps", checkout):
    sys.exit("pip cannot build the package (above)")

judged = pytest("-rs", "--ignore", os.path.join(tests, "test_torch.py"), tests)
typed = all(holds("mypy", "--strict", "--cache-dir", os.devnull, *what)
            for what in (["-p", "fa1lab"], [os.path.join(tests, "typed_use.py")]))
sys.exit(0 if judged and typed else 1)
