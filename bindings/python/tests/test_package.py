"""The package itself: its README, and its types."""

import pathlib
import re
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent.parent


def blocks():
    return re.findall(r"^```python\n(.*?)^```", (FOLDER / "README.md").read_text(), re.M | re.S)


def test_the_readme_does_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(blocks()) >= 5
    names = {}
    for number, block in enumerate(blocks()):
        code = compile(block, f"README.md, block {number + 1}", "exec")
        exec(code, names)


def test_the_stubs_are_those_of_the_module(tmp_path):
    pytest.importorskip("mypy")
    # pyarrow has no types, and is imported only by what needs it.
    (tmp_path / "allowed").write_text("vlsm.columns.pyarrow\n")
    command = [sys.executable, "-m", "mypy.stubtest", "vlsm", "--ignore-disjoint-bases"]
    command += ["--allowlist", tmp_path / "allowed"]
    command += ["--mypy-config-file", FOLDER / "pyproject.toml"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
