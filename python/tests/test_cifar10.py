"""examples/python/cifar10.py on made-up files of CIFAR-10's binary version."""

import re
import tarfile

import examplehelp
import numpy as np
import pytest

pytest.importorskip("torch")


def write_files(folder):
    """Images whose colour is their class."""
    folder.mkdir()
    random = np.random.default_rng(1)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        labels = random.integers(0, 2, 40)
        images = random.integers(0, 80, (40, 3, 1024)) + 170 * (labels == 1)[:, None, None]
        records = np.concatenate([labels[:, None], images.reshape(40, -1)], 1).astype(np.uint8)
        (folder / name).write_bytes(records.tobytes())


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
def test_two_workers_learn_colours(tmp_path, packed):
    data = tmp_path / "cifar-10-batches-bin"
    write_files(data)
    if packed:
        with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
            archive.add(data, data.name)
        for f in data.iterdir():
            f.unlink()
    flags = ["--epochs", 2, "--batch", 10, "--width", 4, "--threads", 1, "--learning-rate", 0.02]
    said = examplehelp.run(
        *[examplehelp.launch(), "-n", 2, "-s", 1, "--elastic-training-enabled"],
        *["--status-listen", "off", "--", "python3", examplehelp.EXAMPLES / "cifar10.py"],
        *["--data", tmp_path, *flags, "--save", tmp_path / "model.safetensors"],
        folder=tmp_path,
    )
    rows = re.findall(r"\| +(\d) +(\d) +(\d+) +[\d.]+ +\d+ +([\d.]+) +([\d.]+)$", said, re.M)
    assert [r[:3] for r in rows] == [("0", "2", "10"), ("1", "2", "10")], said
    assert float(rows[1][3]) < float(rows[0][3]) and float(rows[1][4]) > 0.8, said
    assert (tmp_path / "model.safetensors").stat().st_size > 10_000
