"""launch tune with a command of Python: examples/python/tune.py."""

import csv
import re

from examplehelp import EXAMPLES, launch, run


def test_a_population_of_python_trials_goes_on_from_checkpoints(tmp_path):
    study = (EXAMPLES / "tune.yaml").read_text()
    for old, new in [
        ("examples/python/tune.py --epochs 8", f"{EXAMPLES / 'tune.py'} --epochs 4"),
        ("{slots: 2, servers: 1}", "{slots: 1, servers: 1}"),
    ]:
        assert old in study
        study = study.replace(old, new)
    (tmp_path / "study.yaml").write_text(study)
    out = run(launch(), "tune", "study.yaml", folder=tmp_path)
    with open(tmp_path / "runs" / "spirals" / "trials.csv") as table:
        trials = list(csv.DictReader(table))
    assert len(trials) == 4, out
    # Who takes over the files of a trial that has ended has nothing left to do at its own step 2.
    assert "4" in {trial["step"] for trial in trials}, out
    for trial in trials:
        assert trial["state"] == "completed" and int(trial["step"]) >= 2, out
        assert float(trial["accuracy"]) > 0.5, out
    # A trial that is begun again, from its own or another trial's files, does no epoch twice.
    begun = 0
    for log in (tmp_path / "runs" / "spirals" / "trials").glob("*/attempt-*/worker_0.log"):
        steps = [int(s) for s in re.findall(r"loss=\S+ step=(\d+)", log.read_text())]
        if log.parent.name == "attempt-1":
            assert steps == [1, 2], f"{log}: {steps}"
        elif steps:
            begun += 1
            assert steps == [3, 4], f"{log}: {steps}"
    assert begun > 0, out
