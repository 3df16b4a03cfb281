/**
 * A picture of many thin lines. A canvas strokes ten thousand of them in seconds, and all at once at the end of a frame; here each one costs what it covers, and
 * less where others lie above it already: lines are given from the front to the back.
 */

const COVERED = 0.02; // what is let through by less is not worth a line

export class Raster {
  constructor(width, height) {
    Object.assign(this, { width, height });
    this.through = new Float32Array(width * height); // the share of what lies behind that is seen
    this.red = new Float32Array(width * height);
    this.green = new Float32Array(width * height);
    this.blue = new Float32Array(width * height);
    this.canvas = document.createElement("canvas");
    this.canvas.width = width;
    this.canvas.height = height;
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
    this.image = this.context.createImageData(width, height);
    this.clear();
  }

  clear() {
    this.through.fill(1);
    for (const c of [this.red, this.green, this.blue]) c.fill(0);
  }

  /** path draws lines between points in pixels; the colour is [red, green, blue]. */
  path(xs, ys, rgb, alpha) {
    for (let k = 1; k < xs.length; k++) this.#line(xs[k - 1], ys[k - 1], xs[k], ys[k], rgb, alpha);
  }

  // #line goes along the longer side, and gives each step to the two pixels beside it (Wu 1991).
  #line(x0, y0, x1, y1, rgb, alpha) {
    const steep = Math.abs(y1 - y0) > Math.abs(x1 - x0);
    let [a0, b0, a1, b1] = steep ? [y0, x0, y1, x1] : [x0, y0, x1, y1];
    if (a0 > a1) [a0, b0, a1, b1] = [a1, b1, a0, b0];
    const slope = a1 > a0 ? (b1 - b0) / (a1 - a0) : 0;
    const along = steep ? this.width : 1, across = steep ? 1 : this.width;
    const most = (steep ? this.width : this.height) - 1;
    const end = Math.min(Math.floor(a1), (steep ? this.height : this.width) - 1);
    for (let a = Math.max(0, Math.ceil(a0)); a <= end; a++) {
      const b = b0 + slope * (a - a0);
      const i = Math.floor(b);
      if (i < 0 || i >= most) continue;
      const at = a * along + i * across;
      this.#dot(at, rgb, alpha * (1 - b + i));
      this.#dot(at + across, rgb, alpha * (b - i));
    }
  }

  #dot(at, rgb, alpha) {
    const through = this.through[at];
    if (through < COVERED) return;
    const share = through * alpha;
    this.red[at] += share * rgb[0];
    this.green[at] += share * rgb[1];
    this.blue[at] += share * rgb[2];
    this.through[at] = through - share;
  }

  /** show puts the picture onto a context of the given size. */
  show(context, width, height) {
    const { through, red, green, blue } = this;
    const out = this.image.data;
    for (let i = 0, k = 0; i < through.length; i++, k += 4) {
      const covered = 1 - through[i];
      if (covered === 0) {
        out[k + 3] = 0;
        continue;
      }
      out[k] = red[i] / covered;
      out[k + 1] = green[i] / covered;
      out[k + 2] = blue[i] / covered;
      out[k + 3] = 255 * covered;
    }
    this.context.putImageData(this.image, 0, 0);
    context.globalAlpha = 1;
    context.globalCompositeOperation = "copy";
    context.drawImage(this.canvas, 0, 0, width, height);
    context.globalCompositeOperation = "source-over";
  }
}
