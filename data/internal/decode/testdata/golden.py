"""Writes golden.json: what Pillow decodes encoded images to.

    pip install pillow==12.3.0 numpy
    python3 golden.py $(go env GOROOT)/src/image/testdata > golden.json

Images that Go brings are named; small ones are made here and stored in full. For each: the size, the SHA-256 of the
pixels in RGB, some of the pixels, and the mean of each channel.
"""
import base64, glob, hashlib, io, json, os, sys
import numpy as np
from PIL import Image, features


def made(width, height, channels):
    """made is the picture that the tests draw: slopes with some edges."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    v = (x * (5 + 2 * c) + y * (3 + c) + ((x // 5 + y // 3 + c) % 4) * 40) % 256
    return v.astype(np.uint8)


def row(name, image, **more):
    pixels = np.asarray(image.convert("RGB"))
    h, w, _ = pixels.shape
    some = [(i * 7919 % w, i * 104729 % h) for i in range(min(16, w * h))]
    return dict(name=name, width=w, height=h, sha256=hashlib.sha256(pixels.tobytes()).hexdigest(),
                at=[[x, y] + [int(v) for v in pixels[y, x]] for x, y in some],
                mean=[round(float(pixels[:, :, c].mean()), 4) for c in range(3)], **more)


def encoded(image, format, **options):
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


rows = []
for path in sorted(glob.glob(os.path.join(sys.argv[1], "video-*"))):
    if path.endswith((".jpeg", ".png")) and "truncated" not in path:
        rows.append(row(os.path.basename(path), Image.open(path)))

files = {}
for w, h in [(1, 1), (2, 3), (5, 4), (6, 6), (17, 33), (33, 17), (48, 32)]:
    rgb = Image.fromarray(made(w, h, 3))
    for name, s in [("444", "4:4:4"), ("422", "4:2:2"), ("420", "4:2:0"), ("411", "4:1:1"), ("440", "4:4:0")]:
        try:
            files[f"{w}x{h}-{name}.jpeg"] = encoded(rgb, "JPEG", quality=85, subsampling=s)
        except (ValueError, TypeError):
            continue
    files[f"{w}x{h}-420-progressive.jpeg"] = encoded(rgb, "JPEG", quality=70, progressive=True)
    files[f"{w}x{h}-grey.jpeg"] = encoded(rgb.convert("L"), "JPEG", quality=85)
rgb = Image.fromarray(made(20, 14, 3))
files["restart.jpeg"] = encoded(rgb, "JPEG", quality=85, restart_marker_blocks=1)
files["optimized.jpeg"] = encoded(rgb, "JPEG", quality=97, optimize=True)
files["low.jpeg"] = encoded(rgb, "JPEG", quality=3)
files["cmyk.jpeg"] = encoded(rgb.convert("CMYK"), "JPEG", quality=90)
files["rgb.jpeg"] = encoded(rgb, "JPEG", quality=90, keep_rgb=True)
alpha = rgb.copy()
alpha.putalpha(Image.fromarray(made(20, 14, 1)[:, :, 0]))
files["alpha.png"] = encoded(alpha, "PNG")
files["palette.png"] = encoded(rgb.quantize(16), "PNG")
files["palette-alpha.png"] = encoded(rgb.quantize(16), "PNG", transparency=bytes([0, 100, 255]))
files["grey.png"] = encoded(rgb.convert("L"), "PNG")
files["grey-alpha.png"] = encoded(alpha.convert("LA"), "PNG")
files["bits.png"] = encoded(rgb.convert("1"), "PNG")
files["color.ppm"] = encoded(rgb, "PPM")
files["grey.pgm"] = encoded(rgb.convert("L"), "PPM")
for name, data in files.items():
    rows.append(row(name, Image.open(io.BytesIO(data)), data=base64.b64encode(data).decode()))
head = dict(pillow=Image.__version__, libjpeg_turbo=features.version("libjpeg_turbo"))
print('{"made": %s, "images": [' % json.dumps(head))
print(",\n".join(json.dumps(r, separators=(",", ":")) for r in rows))
print("]}")
