"""Wide and deep on clicks: tables of rows on the servers, of which a worker fetches what it reads.

    launch -n 2 -s 2 -- python examples/python/sparse.py --data criteo_train_head.txt.gz

The network (Cheng and others, 2016) predicts whether an advertisement is clicked, from 13 numbers
and 26 categories: logit = MLP(numbers, embeddings of the categories) + one weight for each
category. Embeddings and weights are rows of two tables on the servers, found by a hash of column
and category. A batch pulls the rows that it reads, and pushes gradients of these rows alone. The
servers apply the optimizer. It needs numpy alone, and runs also in an elastic job (launch
--elastic-training-enabled). Without --data the clicks are made up.
"""

import argparse
import gzip
import zlib

import numpy as np

from paragon import elastic, kv

NUMBERS, CATEGORIES = 13, 26
# WIDTH is how many values an embedding has, HIDDEN how many units the MLP's layer has.
WIDTH, HIDDEN = 8, 64


def read_criteo(path, rows):
    """Reads lines of Criteo's format: labels (n,), numbers (n, 13), row numbers (n, 26)."""
    labels, numbers, ids = [], [], []
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as lines:
        for line in lines:
            fields = line.rstrip("\n").split("\t")
            labels.append(float(fields[0]))
            numbers.append([max(float(f or 0), 0) for f in fields[1 : 1 + NUMBERS]])
            texts = (f"{column}:{f}" for column, f in enumerate(fields[1 + NUMBERS :]))
            ids.append([zlib.crc32(text.encode()) % rows for text in texts])
    return np.array(labels, "f4"), np.log1p(np.array(numbers, "f4")), np.array(ids, "i8")


def made_up(count, rows):
    """Clicks that depend on one number and one category."""
    random = np.random.default_rng(1)
    numbers = random.normal(size=(count, NUMBERS)).astype("f4")
    ids = random.integers(0, 50, (count, CATEGORIES)) + np.arange(CATEGORIES) * 50
    ids %= rows
    score = numbers[:, 0] + np.where(ids[:, 0] % 2, 1, -1)
    labels = (random.random(count) < 1 / (1 + np.exp(-2 * score))).astype("f4")
    return labels, numbers, ids


class WideAndDeep:
    """The network; its weights are the keys of a store, its tables are not held here."""

    def __init__(self, store, rows):
        self.store = store
        random = np.random.default_rng(1)
        inputs = NUMBERS + CATEGORIES * WIDTH
        self.weights = {
            "hidden.weight": random.normal(0, inputs**-0.5, (inputs, HIDDEN)).astype("f4"),
            "hidden.bias": np.zeros(HIDDEN, "f4"),
            "out.weight": random.normal(0, HIDDEN**-0.5, HIDDEN).astype("f4"),
            "out.bias": np.zeros(1, "f4"),
        }
        # Embeddings of zeros would all stay alike.
        embeddings = random.uniform(-0.05, 0.05, (rows, WIDTH)).astype("f4")
        tables = {"deep": embeddings, "wide": np.zeros((rows, 1), "f4")}
        for name, values in tables.items():
            store.init(name, kv.row_sparse_array((values, np.arange(rows)), values.shape))
        self.names = list(self.weights)
        store.init(self.names, [self.weights[n] for n in self.names])
        self.shapes = {name: values.shape for name, values in tables.items()}

    def pull(self):
        """Brings the weights of this moment."""
        self.store.pull(self.names, out=[self.weights[n] for n in self.names])

    def forward(self, numbers, ids):
        """Returns the logits of a batch, and what backward needs."""
        rows, at = np.unique(ids, return_inverse=True)
        at = at.reshape(ids.shape)
        deep, wide = self.store.row_sparse_pull(["deep", "wide"], row_ids=[rows, rows])
        x = np.hstack([numbers, deep.data[at].reshape(len(ids), -1)])
        hidden = np.maximum(x @ self.weights["hidden.weight"] + self.weights["hidden.bias"], 0)
        logits = hidden @ self.weights["out.weight"] + self.weights["out.bias"]
        return logits + wide.data[at].sum((1, 2)), (rows, at, x, hidden)

    def backward(self, logits, labels, state):
        """Pushes the gradients of the batch's mean loss, and brings new weights."""
        rows, at, x, hidden = state
        down = (sigmoid(logits) - labels) / np.float32(len(labels))
        down_hidden = np.outer(down, self.weights["out.weight"]) * (hidden > 0)
        gradients = {
            "hidden.weight": x.T @ down_hidden,
            "hidden.bias": down_hidden.sum(0),
            "out.weight": hidden.T @ down,
            "out.bias": down.sum(keepdims=True),
        }
        down_x = down_hidden @ self.weights["hidden.weight"].T
        deep, wide = np.zeros((len(rows), WIDTH), "f4"), np.zeros((len(rows), 1), "f4")
        np.add.at(deep, at, down_x[:, NUMBERS:].reshape(at.shape + (WIDTH,)))
        np.add.at(wide, at, down[:, None, None])
        for name, values in (("deep", deep), ("wide", wide)):
            self.store.push(name, kv.row_sparse_array((values, rows), self.shapes[name]))
        out = [self.weights[n] for n in self.names]
        self.store.pushpull(self.names, [gradients[n] for n in self.names], out=out)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_loss(logits, labels):
    """The mean cross entropy, in nats."""
    return float(np.mean(np.logaddexp(0, logits) - labels * logits))


def area_under_curve(logits, labels):
    """The chance that a click has a higher logit than another row."""
    ranks = np.empty(len(logits))
    ranks[np.argsort(logits, kind="stable")] = np.arange(1, len(logits) + 1)
    clicks = labels.sum()
    return (ranks[labels > 0].sum() - clicks * (clicks + 1) / 2) / (clicks * (len(labels) - clicks))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="a file of Criteo's format (default: made-up clicks)")
    parser.add_argument("--rows", type=int, default=1 << 16, help="rows of each table")
    parser.add_argument("--batch", type=int, default=128, help="examples of a worker's step")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rate", type=float, default=0.005, help="learning rate of Adagrad")
    options = parser.parse_args()

    if options.data:
        labels, numbers, ids = read_criteo(options.data, options.rows)
    else:
        labels, numbers, ids = made_up(8192, options.rows)
    train = len(labels) * 9 // 10
    store = kv.create("dist_sync")
    store.set_optimizer("adagrad", learning_rate=options.rate, reduction="mean")
    model = WideAndDeep(store, options.rows)
    batches = elastic.batches(store, train, options.batch, options.epochs, seed=1)
    losses = []
    for batch in batches:
        if batch.first:
            model.pull()
        at = batch.indices
        logits, state = model.forward(numbers[at], ids[at])
        model.backward(logits, labels[at], state)
        losses.append(log_loss(logits, labels[at]))
    if not batches.removed:
        logits, _ = model.forward(numbers[train:], ids[train:])
        print(
            f"worker {store.rank} of {store.num_workers}: loss {np.mean(losses):.4f} in training, "
            f"{log_loss(logits, labels[train:]):.4f} on {len(logits)} others, "
            f"area under the curve {area_under_curve(logits, labels[train:]):.4f}"
        )
    store.close()


if __name__ == "__main__":
    main()
