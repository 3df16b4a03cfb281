"""Writes golden.json: what Pillow and torchvision make of the picture that the tests draw.

    pip install pillow==12.3.0 numpy torch==2.15.0 torchvision==0.29.2
    python3 golden.py > golden.json

Each row has the size of the picture, what is done to it, and what comes out: the beginning of the SHA-256 of the pixels, and two of them.
Pillow 13 resizes along the columns first where the height shrinks by more than twice what the width does; all before it, and we, begin
with the rows.
"""
import hashlib, json
import numpy as np
import PIL
import torchvision
import torchvision.transforms.functional as F
from PIL import Image
from torchvision.transforms import InterpolationMode as Mode
from torchvision.transforms.autoaugment import _apply_op, RandAugment, TrivialAugmentWide


def made(width, height, channels):
    """made is the picture that the tests draw: slopes with edges, which use all values."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    v = (x * (5 + 2 * c) + y * (3 + c) + ((x // 5 + y // 3 + c) % 4) * 40 + (x * y * (c + 1)) % 7) % 256
    v = v.astype(np.uint8)
    return Image.fromarray(v[:, :, 0] if channels == 1 else v)


rows = []


def row(of, op, image, **args):
    pixels = np.asarray(image)
    h, w = pixels.shape[:2]
    flat = pixels.reshape(h, w, -1)
    some = [(i * 7919 % w, i * 104729 % h) for i in range(2)]
    rows.append(dict(of=list(of), op=op, **args, width=w, height=h, sha256=hashlib.sha256(pixels.tobytes()).hexdigest()[:16],
                     at=[[x, y] + [int(v) for v in flat[y, x]] for x, y in some]))


filters = dict(bilinear=Mode.BILINEAR, bicubic=Mode.BICUBIC, lanczos=Mode.LANCZOS, box=Mode.BOX)
shapes = [(1, 1, 3), (7, 5, 3), (64, 48, 3), (48, 64, 1), (131, 97, 3), (97, 131, 3)]
for of in shapes:
    image = made(*of)
    for name, mode in filters.items():
        for size in [(1, 1), (3, 2), (24, 24), (64, 40), (150, 161), (of[0], 20), (20, of[1])]:
            row(of, "resize_to", F.resize(image, size[::-1], mode), filter=name, args=size)
        for size in [1, 20, 60]:
            row(of, "resize", F.resize(image, size, mode), filter=name, args=[size])
    for size in [1, 4, 31, 50, 100]:
        row(of, "center_crop", F.center_crop(image, size), args=[size])
    if min(of[:2]) > 40:
        for box in [(3, 5, 30, 40), (0, 0, 41, 37), (7, 2, 24, 35), (7, 2, 35, 24)]:
            row(of, "resized_crop", F.resized_crop(image, box[1], box[0], box[3], box[2], (24, 24), Mode.BILINEAR), args=box)

for of in [(1, 1, 3), (2, 3, 3), (37, 29, 3), (40, 40, 3), (40, 40, 1), (120, 90, 3)]:
    image = made(*of)
    for f in [0.0, 0.3, 0.7311, 1.0, 1.25, 1.9]:
        row(of, "brightness", F.adjust_brightness(image, f), args=[f])
        row(of, "contrast", F.adjust_contrast(image, f), args=[f])
        row(of, "color", F.adjust_saturation(image, f), args=[f])
        row(of, "sharpness", F.adjust_sharpness(image, f), args=[f])
    for f in [-0.5, -0.21, 0.0, 0.1, 0.5]:
        row(of, "hue", F.adjust_hue(image, f), args=[f])
    row(of, "grayscale", F.rgb_to_grayscale(image, of[2]), args=[])
    row(of, "mirror", F.hflip(image), args=[])
    # Each op of the two augments, at some of the 31 magnitudes.
    for name, space in [("RandAugment", RandAugment()._augmentation_space(31, (of[1], of[0]))),
                        ("TrivialAugment", TrivialAugmentWide()._augmentation_space(31))]:
        for op, (magnitudes, signed) in space.items():
            for bin in [0, 9, 20, 30] if magnitudes.ndim > 0 else [0]:
                for sign in [1, -1] if signed else [1]:
                    m = sign * (magnitudes[bin].item() if magnitudes.ndim > 0 else 0.0)
                    row(of, "augment", _apply_op(image, op, m, Mode.NEAREST, None), args=[bin, sign], augment=name, name=op)

print(json.dumps(dict(pillow=PIL.__version__, torchvision=torchvision.__version__))[:-1] + ', "rows": [')
print(",\n".join(json.dumps(r, separators=(",", ":")) for r in rows))
print("]}")
