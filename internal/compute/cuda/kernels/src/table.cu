// Many tensors in one launch: row-major float32 (K,C,RS) and channel-last (PadK,RS,PadC) of some type.

// Entry is a tensor as table.go writes it; behind the entries lies for each tile a number, the entry that it is of. A tile of it is `filters` filters by `channels` channels, at most TILE numbers.
struct alignas(16) Entry {
  float *row_major;
  void *channel_last;
  int k, c, rs, pad_k, pad_c, filters, channels, across, first, type, unused[2];
};
static_assert(sizeof(Entry) == 64, "table.go knows the layout");
enum { TILE = 2304, EACH = (TILE / 4 + THREADS - 1) / THREADS }; // 256 channels of 3×3

// Cut is a tile's place: filters k0 to k0+filters-1 and channels c0 to c0+channels-1, of which c are in the row-major form.
struct Cut {
  int k0, filters, c0, channels, c;
};
DEVICE Cut cut(const Entry &e, int tile) {
  Cut t;
  t.k0 = tile / e.across * e.filters;
  t.filters = e.pad_k - t.k0 < e.filters ? e.pad_k - t.k0 : e.filters;
  t.c0 = tile % e.across * e.channels;
  t.channels = e.pad_c - t.c0 < e.channels ? e.pad_c - t.c0 : e.channels;
  t.c = e.c - t.c0 < t.channels ? e.c - t.c0 : t.channels;
  if (t.c < 0) t.c = 0;
  return t;
}

DEVICE float get_typed(const void *p, int type, i64 i) {
  if (type == 0) return ((const float *)p)[i];
  if (type == 1) return get(((const bf16 *)p)[i]);
  return get(((const f16 *)p)[i]);
}
DEVICE void put_typed(void *p, int type, i64 i, float x) {
  if (type == 0)
    ((float *)p)[i] = x;
  else if (type == 1)
    put(((bf16 *)p)[i], x);
  else
    put(((f16 *)p)[i], x);
}

// Filled is the part of a tile that the row-major form has: numbers in a row. In shared memory number (f, c, rs) of a tile lies at
// f·channels·rs + c·rs + rs: runs of the row-major form.
struct Filled {
  float *first;
  int filters, run, room; // run: of a filter; room: what it takes in shared memory
};
DEVICE Filled filled(const Entry &e, const Cut &t) {
  Filled f;
  f.first = e.row_major + ((i64)t.k0 * e.c + t.c0) * e.rs;
  f.filters = e.k - t.k0 < t.filters ? e.k - t.k0 : t.filters;
  if (f.filters < 0) f.filters = 0;
  f.run = t.c * e.rs;
  f.room = t.channels * e.rs;
  return f;
}

// in_fours tells whether numbers may be moved four at a time: as nearly always.
DEVICE bool in_fours(const Entry &e, const Cut &t) {
  return t.c == t.channels && (e.c | e.pad_c | t.channels) % 4 == 0 && ((u64)e.row_major | (u64)e.channel_last) % 16 == 0;
}

// filter_of is the filter of a line, a place in the window of a filter; a division by a number that the compiler knows is none.
DEVICE int filter_of(int line, int rs) { return rs == 9 ? line / 9 : rs == 1 ? line : line / rs; }

DEVICE float first_of(int type, u32 w) { return type == 1 ? low(bf16(), w) : low(f16(), w); }
DEVICE float second_of(int type, u32 w) { return type == 1 ? high(bf16(), w) : high(f16(), w); }
DEVICE u32 pair_of(int type, float a, float b) { return type == 1 ? two_bf16(a, b) : two_f16(a, b); }

// Four is the place of four channels of a line of the channel-last form: unit i of a tile.
struct Four {
  int filter, shared; // shared: where the first of them lies, the others rs behind each other
  i64 at;             // in the channel-last form
};
DEVICE Four four(const Entry &e, const Cut &t, const Filled &f, int i) {
  int width = t.channels / 4, line = i / width, c = 4 * (i - line * width);
  Four p;
  p.filter = filter_of(line, e.rs);
  p.shared = p.filter * f.room + c * e.rs + line - p.filter * e.rs;
  p.at = ((i64)t.k0 * e.rs + line) * e.pad_c + t.c0 + c;
  return p;
}

// A thread has EACH times four numbers on their way at a time; tiles that do not go by fours are rare and small.
KERNEL_BY(5) pack(const Entry *table, int entries, int tiles) {
  SHARED(float, numbers, TILE);
  const int *owner = (const int *)(table + entries);
  for (int t = (int)blockIdx.x; t < tiles; t += gridDim.x) {
    const Entry e = table[owner[t]];
    Cut at = cut(e, t - e.first);
    Filled in = filled(e, at);
    if (in_fours(e, at)) {
      int count = in.filters * in.run / 4, units = at.filters * at.channels * e.rs / 4;
      quad v[EACH];
#pragma unroll
      for (int u = 0; u < EACH; u++)
        if ((int)threadIdx.x + u * THREADS < count) v[u] = ((const quad *)in.first)[threadIdx.x + u * THREADS];
#pragma unroll
      for (int u = 0; u < EACH; u++) {
        int i = (int)threadIdx.x + u * THREADS;
        if (i < count) {
          numbers[4 * i] = bits_float(v[u].x);
          numbers[4 * i + 1] = bits_float(v[u].y);
          numbers[4 * i + 2] = bits_float(v[u].z);
          numbers[4 * i + 3] = bits_float(v[u].w);
        }
      }
      __syncthreads();
      for (int i = (int)threadIdx.x; i < units; i += THREADS) {
        Four p = four(e, at, in, i);
        float x[4] = {0, 0, 0, 0};
        if (p.filter < in.filters) {
#pragma unroll
          for (int k = 0; k < 4; k++) x[k] = numbers[p.shared + k * e.rs];
        }
        if (e.type == 0)
          ((quad *)e.channel_last)[p.at / 4] = quad{float_bits(x[0]), float_bits(x[1]), float_bits(x[2]), float_bits(x[3])};
        else
          ((pair *)e.channel_last)[p.at / 4] = pair{pair_of(e.type, x[0], x[1]), pair_of(e.type, x[2], x[3])};
      }
    } else {
      for (int i = (int)threadIdx.x; i < in.filters * in.run; i += THREADS) {
        int f = i / in.run, j = i - f * in.run;
        numbers[f * in.room + j] = e.row_major[((i64)(at.k0 + f) * e.c + at.c0) * e.rs + j];
      }
      __syncthreads();
      for (int i = (int)threadIdx.x; i < at.filters * in.room; i += THREADS) {
        int line = i / at.channels, c = i - line * at.channels, f = filter_of(line, e.rs);
        float x = 0;
        if (f < in.filters && c < at.c) x = numbers[f * in.room + c * e.rs + line - f * e.rs];
        put_typed(e.channel_last, e.type, ((i64)at.k0 * e.rs + line) * e.pad_c + at.c0 + c, x);
      }
    }
    __syncthreads();
  }
}
EXPORT(pack);

KERNEL_BY(5) unpack(const Entry *table, int entries, int tiles, const float *factor, u32 *found, float constant) {
  SHARED(float, numbers, TILE);
  const int *owner = (const int *)(table + entries);
  float times = factor ? constant * *factor : constant;
  bool bad = false;
  for (int t = (int)blockIdx.x; t < tiles; t += gridDim.x) {
    const Entry e = table[owner[t]];
    Cut at = cut(e, t - e.first);
    Filled out = filled(e, at);
    if (in_fours(e, at)) {
      int count = out.filters * out.run / 4;
      quad v[EACH];
#pragma unroll
      for (int u = 0; u < EACH; u++)
        if ((int)threadIdx.x + u * THREADS < count) {
          Four p = four(e, at, out, (int)threadIdx.x + u * THREADS);
          if (e.type == 0) {
            v[u] = ((const quad *)e.channel_last)[p.at / 4];
          } else {
            pair both = ((const pair *)e.channel_last)[p.at / 4];
            v[u].x = both.x, v[u].y = both.y;
          }
        }
#pragma unroll
      for (int u = 0; u < EACH; u++)
        if ((int)threadIdx.x + u * THREADS < count) {
          Four p = four(e, at, out, (int)threadIdx.x + u * THREADS);
          float x[4];
          if (e.type == 0)
            x[0] = bits_float(v[u].x), x[1] = bits_float(v[u].y), x[2] = bits_float(v[u].z), x[3] = bits_float(v[u].w);
          else
            x[0] = first_of(e.type, v[u].x), x[1] = second_of(e.type, v[u].x), x[2] = first_of(e.type, v[u].y), x[3] = second_of(e.type, v[u].y);
#pragma unroll
          for (int k = 0; k < 4; k++) {
            x[k] *= times;
            bad |= !is_finite(x[k]);
            numbers[p.shared + k * e.rs] = x[k];
          }
        }
      __syncthreads();
      for (int i = (int)threadIdx.x; i < count; i += THREADS)
        ((quad *)out.first)[i] = quad{float_bits(numbers[4 * i]), float_bits(numbers[4 * i + 1]), float_bits(numbers[4 * i + 2]), float_bits(numbers[4 * i + 3])};
    } else {
      for (int i = (int)threadIdx.x; i < out.filters * out.room; i += THREADS) {
        int line = i / at.channels, c = i - line * at.channels, f = filter_of(line, e.rs);
        if (c < at.c) {
          float x = get_typed(e.channel_last, e.type, ((i64)at.k0 * e.rs + line) * e.pad_c + at.c0 + c) * times;
          bad |= !is_finite(x);
          numbers[f * out.room + c * e.rs + line - f * e.rs] = x;
        }
      }
      __syncthreads();
      for (int i = (int)threadIdx.x; i < out.filters * out.run; i += THREADS) {
        int f = i / out.run, j = i - f * out.run;
        e.row_major[((i64)(at.k0 + f) * e.c + at.c0) * e.rs + j] = numbers[f * out.room + j];
      }
    }
    __syncthreads();
  }
  if (bad && found) *found = 1;
}
EXPORT(unpack);
