"""Trains a ResNet-18 on CIFAR-10, with workers that may come, go and be killed.

    launch -n 2 -s 2 --elastic-training-enabled -- python examples/python/cifar10.py --data FOLDER
    launch ctl scale 3          # while it runs; kill any worker as well

FOLDER has the six files of the binary version (data_batch_1.bin to test_batch.bin), or the archive
cifar-10-binary.tar.gz, or what torchvision has downloaded. Each image is used exactly once an
epoch. Without launch it is a job of one worker. With --checkpoint FILE `launch ctl stop`, and
Ctrl-C, end it after a step, and the same command goes on there, with any number of workers.
"""

import argparse
import os
import random
import tarfile
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

import paragon.torch as pt

IMAGE = 3 * 32 * 32
MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
DEVIATION = torch.tensor([0.2470, 0.2435, 0.2616]).view(3, 1, 1)


def binary_files(folder):
    """The six files' bytes by name, from a folder or from the archive in it."""
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    for place in (folder, os.path.join(folder, "cifar-10-batches-bin")):
        if os.path.exists(os.path.join(place, names[0])):
            return {n: open(os.path.join(place, n), "rb").read() for n in names}
    archive = os.path.join(folder, "cifar-10-binary.tar.gz")
    if not os.path.exists(archive):
        raise SystemExit(f"{folder} has neither {names[0]} nor cifar-10-binary.tar.gz")
    with tarfile.open(archive) as packed:
        members = {os.path.basename(m.name): m for m in packed}
        return {n: packed.extractfile(members[n]).read() for n in names}


def read(folder):
    """Yields images (n, 3, 32, 32), uint8, with labels (n,): to train on, then to test with."""
    if os.path.isdir(os.path.join(folder, "cifar-10-batches-py")):
        import torchvision

        for found in (torchvision.datasets.CIFAR10(folder, train) for train in (True, False)):
            yield torch.from_numpy(found.data).permute(0, 3, 1, 2), torch.tensor(found.targets)
        return
    files = binary_files(folder)
    test = files.pop("test_batch.bin")
    for data in (b"".join(files.values()), test):
        records = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(-1, 1 + IMAGE)
        yield records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].to(torch.int64)


class Augmented(Dataset):
    """Images that are moved by up to 4 pixels and turned over, by a seed of epoch and image."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        draw = random.Random(i.seed)
        top, left = draw.randrange(9), draw.randrange(9)
        image = F.pad(self.images[i], (4, 4, 4, 4))[:, top : top + 32, left : left + 32]
        return image.flip(2) if draw.random() < 0.5 else image, self.labels[i]


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = F.relu(self.norm1(self.first(x)))
        return F.relu(self.norm2(self.second(y)) + self.shortcut(x))


def resnet18(width, stem):
    """He and others, 2015, with CIFAR's stem of one 3×3 convolution, or ImageNet's."""
    if stem == "cifar":
        layers = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    else:
        layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = width
    for outputs, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
        layers += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


def normalised(images):
    return (images.float() / 255 - MEAN) / DEVIATION


@torch.no_grad()
def right_answers(model, images, labels):
    """How many of the images the model knows, and how many there are."""
    model.eval()
    right = sum(
        int((model(normalised(x)).argmax(1) == y).sum())
        for x, y in zip(images.split(250), labels.split(250))
    )
    model.train()
    return right, len(images)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder of CIFAR-10")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64, help="images of a step of one worker")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--limit", type=int, help="train on so many images, test on a fifth of it")
    parser.add_argument("--loaders", type=int, default=1, help="processes that load images")
    parser.add_argument("--threads", type=int, help="of each worker's torch")
    parser.add_argument("--width", type=int, default=64, help="channels of the first stage")
    parser.add_argument("--stem", choices=("cifar", "imagenet"), default="cifar")
    parser.add_argument("--checkpoint", help="file for a job that stops; if there, it goes on")
    parser.add_argument("--save", help="file for the model at the end (safetensors)")
    return parser.parse_args()


def main():
    args = arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    (train_images, train_labels), (test_images, test_labels) = read(args.data)
    if args.limit:
        train_images, train_labels = train_images[: args.limit], train_labels[: args.limit]
        test_images, test_labels = test_images[: args.limit // 5], test_labels[: args.limit // 5]

    store = pt.init()
    torch.manual_seed(1)
    model = resnet18(args.width, args.stem)
    optimizer = torch.optim.SGD(
        model.parameters(), args.learning_rate, momentum=0.9, weight_decay=5e-4
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    attached = pt.attach(model, optimizer, store, state={"schedule": schedule})

    dataset = Augmented(train_images, train_labels)
    batches = pt.ElasticSampler(
        dataset, args.batch, seed=1, with_epoch=True, checkpoint=args.checkpoint
    )
    if args.checkpoint and os.path.exists(args.checkpoint):
        batches.load(args.checkpoint)
    loader = DataLoader(dataset, batch_sampler=batches, num_workers=args.loaders)
    rows = []
    for epoch in batches.epochs(args.epochs):
        # counts has the sum of the losses, examples, right answers, and images tested.
        begin, steps, counts = time.perf_counter(), 0, torch.zeros(4)
        for images, labels in batches.batches(loader):
            loss = F.cross_entropy(model(normalised(images)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pt.report(loss=loss, learning_rate=optimizer.param_groups[0]["lr"])
            counts[0] += loss.item() * batches.size
            counts[1] += batches.size
            steps += 1
        seconds = time.perf_counter() - begin
        schedule.step()
        # Batch norm's statistics are each worker's own until they are averaged.
        attached.average_buffers()
        mine = slice(store.rank, None, store.num_workers)
        counts[2:] = torch.tensor(right_answers(model, test_images[mine], test_labels[mine]))
        loss_sum, trained, right, tested = pt.all_reduce(counts, "sum", "counts").tolist()
        if store.rank == 0:
            pt.report(loss=loss_sum / max(trained, 1), accuracy=right / tested)
        rows.append((epoch, store.num_workers, steps, seconds, trained, loss_sum, right / tested))
    if args.save:
        pt.save(args.save, attached)
    if store.rank == 0:
        table(rows)


def table(rows):
    print("epoch  workers  steps  seconds  images/s  loss    accuracy")
    for epoch, workers, steps, seconds, trained, loss_sum, accuracy in rows:
        speed, loss = trained / seconds, loss_sum / max(trained, 1)
        print(
            f"{epoch:5}  {workers:7}  {steps:5}  {seconds:7.1f}  {speed:8.0f}  {loss:.4f}"
            f"  {accuracy:8.4f}"
        )


if __name__ == "__main__":
    main()
