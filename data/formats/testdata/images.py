"""Writes images.json: small images as WebP, BMP and TIFF, and what Pillow decodes them to.

    pip install pillow==12.3.0 numpy
    python3 images.py > images.json
"""
import base64, hashlib, io, json
import numpy as np
from PIL import Image, features


def made(width, height):
    y, x, c = np.mgrid[0:height, 0:width, 0:3]
    return Image.fromarray(((x * (5 + 2 * c) + y * (3 + c) + ((x // 5 + y // 3 + c) % 4) * 40) % 256).astype(np.uint8))


files = {}
for w, h in [(1, 1), (2, 3), (17, 33), (48, 31)]:
    rgb = made(w, h)
    alpha = rgb.copy()
    alpha.putalpha(Image.fromarray((np.arange(w * h).reshape(h, w) % 256).astype(np.uint8)))
    for name, image, format, options in [
            ("lossy", rgb, "WEBP", dict(quality=80)), ("lossless", rgb, "WEBP", dict(lossless=True)),
            ("lossy-alpha", alpha, "WEBP", dict(quality=80)), ("lossless-alpha", alpha, "WEBP", dict(lossless=True, exact=True)),
            ("rgb", rgb, "BMP", {}), ("palette", rgb.quantize(16), "BMP", {}),
            ("rgb", rgb, "TIFF", {}), ("grey", rgb.convert("L"), "TIFF", dict(compression="tiff_lzw"))]:
        out = io.BytesIO()
        image.save(out, format, **options)
        if len(out.getvalue()) < 4000:
            files[f"{w}x{h}-{name}.{format.lower()}"] = out.getvalue()
rows = []
for name, data in files.items():
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    rows.append(dict(name=name, width=pixels.shape[1], height=pixels.shape[0], sha256=hashlib.sha256(pixels.tobytes()).hexdigest(),
                     data=base64.b64encode(data).decode()))
print(json.dumps(dict(pillow=Image.__version__, webp=features.version("webp")))[:-1] + ', "images": [')
print(",\n".join(json.dumps(r, separators=(",", ":")) for r in rows))
print("]}")
