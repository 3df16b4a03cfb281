"""Makes folders of JPEGs of 500×375 pixels, as ImageNet has, of the photographs in scikit-learn and scikit-image.

    photographs.py FOLDER COUNT

FOLDER/q90 has 4:2:0 at quality 90, about 50 KB each, and FOLDER/q96 4:4:4 at quality 96, about 110 KB; in ten classes.
"""
import importlib.util
import os
import sys

from PIL import Image

sources = [
    ("sklearn", "datasets/images/china.jpg"), ("sklearn", "datasets/images/flower.jpg"), ("skimage", "data/astronaut.png"),
    ("skimage", "data/chelsea.png"), ("skimage", "data/coffee.png"), ("skimage", "data/rocket.jpg"), ("skimage", "data/retina.jpg"),
    ("skimage", "data/hubble_deep_field.jpg"), ("skimage", "data/motorcycle_left.png"), ("skimage", "data/ihc.png"),
]
width, height = 500, 375


def main(folder, count):
    images = []
    for package, path in sources:
        root = importlib.util.find_spec(package).submodule_search_locations[0]
        images.append(Image.open(os.path.join(root, path)).convert("RGB"))
    for kind, options in [("q90", dict(quality=90, subsampling="4:2:0")), ("q96", dict(quality=96, subsampling="4:4:4"))]:
        for i in range(count):
            image = images[i % len(images)]
            # Each at three sizes and many places.
            scale = max(width / image.width, height / image.height, 0.8 + 0.1 * (i // len(images) % 3))
            size = max(width, round(image.width * scale)), max(height, round(image.height * scale))
            image = image.resize(size, Image.LANCZOS)
            x, y = i * 37 % (image.width - width + 1), i * 53 % (image.height - height + 1)
            where = os.path.join(folder, kind, f"class{i % 10}")
            os.makedirs(where, exist_ok=True)
            image.crop((x, y, x + width, y + height)).save(os.path.join(where, f"{i:05d}.jpg"), **options)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
