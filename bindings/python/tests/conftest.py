"""Fixtures and helpers of the tests."""

import faulthandler
import pathlib
import subprocess
import sys

import pytest
from hypothesis.configuration import set_hypothesis_home_dir

import vlsm

set_hypothesis_home_dir(pathlib.Path(__file__).parents[2] / "target" / "hypothesis")


@pytest.fixture(autouse=True)
def no_hang():
    """A test that hangs, as on a lock that is never released, shows where and ends the run."""
    faulthandler.dump_traceback_later(120, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def db(path):
    with vlsm.Db(path, merge_operators={"join": join}) as db:
        yield db


def join(_key, before, operands):
    """A merge operator: joins the previous value and all operands with commas."""
    return b",".join([before, *operands] if before else operands)


@pytest.fixture
def run_python(tmp_path):
    """Runs a program in an interpreter of its own and returns its output."""

    def run(program, *arguments, code=0):
        command = [sys.executable, "-X", "faulthandler", "-c", program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout, done.stderr

    return run
