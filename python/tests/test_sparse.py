"""examples/python/sparse.py: tables of rows on the servers."""

import os
import re
import sys
from pathlib import Path

import pytest
from examplehelp import EXAMPLES, REPOSITORY, launch, run

ENDED = r"worker (\d) of 2: loss (\S+) in training, (\S+) on (\d+) others, area .* (\S+)"


def trained(folder, *flags, before=()):
    """Runs the example on two workers, and returns what each printed at the end."""
    out = run(
        launch(), "-n", 2, "-s", 2, *before, "--", sys.executable, EXAMPLES / "sparse.py", *flags,
        folder=folder,
    )
    ends = sorted(re.findall(ENDED, out))
    assert [rank for rank, *_ in ends] == ["0", "1"], out
    return ends


def test_clicks_are_predicted_from_rows_that_workers_share(tmp_path):
    one, two = trained(tmp_path)
    assert one[2:] == two[2:], "the workers have other weights at the end"
    assert float(one[4]) > 0.75


def test_it_trains_in_an_elastic_job(tmp_path):
    one, two = trained(tmp_path, before=["--elastic-training-enabled"])
    assert one[2:] == two[2:]
    assert float(one[4]) > 0.75


def test_real_clicks_are_predicted(tmp_path):
    root = Path(os.environ.get("PARAGON_TEST_DATA") or REPOSITORY.parent / "shared" / "data")
    data = root / "ctr" / "criteo_train_head.txt.gz"
    if not data.exists():
        pytest.skip(f"no {data} (PARAGON_TEST_DATA)")
    one, _ = trained(tmp_path, "--data", data)
    # 2,198 of 10,109 are clicks: their share alone has a loss of 0.523.
    assert float(one[2]) < 0.48
    assert float(one[4]) > 0.72
