"""Files of a job's values: safetensors, which PyPI's package of that name reads."""

import sys

import numpy as np
import safetensors.numpy
from examplehelp import launch, run

PROGRAM = """
import sys
import numpy as np
from paragon import kv

store = kv.create("dist_sync")
store.init(["net.weight", "net.bias"], [np.arange(6, dtype="f4").reshape(2, 3), np.ones(2, "f4")])
store.set_optimizer("adam", learning_rate=0.1)
store.pushpull(["net.weight", "net.bias"], [np.ones((2, 3), "f4"), np.ones(2, "f4")])
store.barrier()
if store.rank == 0:
    store.save(sys.argv[1])
    np.save(sys.argv[1] + ".npy", store.pull("net.weight"))
store.close()
"""


def test_package_safetensors_reads_what_a_job_saved(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    path = tmp_path / "job.safetensors"
    run(launch(), "-n", 2, "-s", 2, "--", sys.executable, "program.py", path, folder=tmp_path)
    tensors = safetensors.numpy.load_file(path)
    assert tensors["net.weight"].shape == (2, 3), sorted(tensors)
    np.testing.assert_array_equal(tensors["net.weight"], np.load(f"{path}.npy"))
    # The servers' optimizer state is there, too.
    assert len(tensors) > 2, sorted(tensors)
