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
    for trial in trials:
        assert (trial["state"], trial["step"]) == ("completed", "4"), out
        assert float(trial["accuracy"]) > 0.5, out
    # A trial that is begun again, from its own or another trial's files, does no epoch twice.
    assert re.search(r"attempt 2 started on local from .*checkpoint of step 2", out), out
    for folder in (tmp_path / "runs" / "spirals" / "trials").iterdir():
        for log in folder.rglob("*.log"):
            steps = [int(s) for s in re.findall(r"accuracy=\S+ loss=\S+ step=(\d+)", log.read_text())]
            assert steps == sorted(set(steps)), f"{log}: {steps}"
