// Many tensors in one launch: row-major float32 (K,C,RS) and channel-last (PadK,RS,PadC) of some type.

// Entry is a tensor as table.go writes it. A tile of it is `filters` filters by `channels` channels, at most TILE numbers.
struct Entry {
  float *row_major;
  void *channel_last;
  int k, c, rs, pad_k, pad_c, filters, channels, across, first, type, unused[2];
};
static_assert(sizeof(Entry) == 64, "table.go knows the layout");
enum { TILE = 2048 };

// entry_of finds the tensor of a tile: the last whose first tile is not behind it.
DEVICE int entry_of(const Entry *table, int entries, int tile) {
  int low = 0, high = entries;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (table[middle].first <= tile)
      low = middle;
    else
      high = middle;
  }
  return low;
}

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

// In shared memory number (f, c, rs) of a tile lies at f·channels·rs + c·rs + rs: runs of the row-major form.
KERNEL pack(const Entry *table, int entries, int tiles) {
  SHARED(float, numbers, TILE);
  for (int t = (int)blockIdx.x; t < tiles; t += gridDim.x) {
    Entry e = table[entry_of(table, entries, t)];
    Cut at = cut(e, t - e.first);
    int run = at.c * e.rs, room = at.channels * e.rs;
    for (int i = (int)threadIdx.x; i < at.filters * run; i += THREADS) {
      int f = i / run, j = i - f * run;
      numbers[f * room + j] = at.k0 + f < e.k ? e.row_major[((i64)(at.k0 + f) * e.c + at.c0) * e.rs + j] : 0;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < at.filters * room; i += THREADS) {
      int line = i / at.channels, c = i - line * at.channels, f = line / e.rs, rs = line - f * e.rs;
      float x = 0;
      if (c < at.c) x = numbers[f * room + c * e.rs + rs];
      put_typed(e.channel_last, e.type, ((i64)(at.k0 + f) * e.rs + rs) * e.pad_c + at.c0 + c, x);
    }
    __syncthreads();
  }
}
EXPORT(pack);

KERNEL unpack(const Entry *table, int entries, int tiles, const float *factor, u32 *found, float constant) {
  SHARED(float, numbers, TILE);
  float times = factor ? constant * *factor : constant;
  bool bad = false;
  for (int t = (int)blockIdx.x; t < tiles; t += gridDim.x) {
    Entry e = table[entry_of(table, entries, t)];
    Cut at = cut(e, t - e.first);
    int run = at.c * e.rs, room = at.channels * e.rs;
    for (int i = (int)threadIdx.x; i < at.filters * room; i += THREADS) {
      int line = i / at.channels, c = i - line * at.channels, f = line / e.rs, rs = line - f * e.rs;
      if (c < at.c && at.k0 + f < e.k) {
        float x = get_typed(e.channel_last, e.type, ((i64)(at.k0 + f) * e.rs + rs) * e.pad_c + at.c0 + c) * times;
        bad |= !is_finite(x);
        numbers[f * room + c * e.rs + rs] = x;
      }
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < at.filters * run; i += THREADS) {
      int f = i / run, j = i - f * run;
      if (at.k0 + f < e.k) e.row_major[((i64)(at.k0 + f) * e.c + at.c0) * e.rs + j] = numbers[f * room + j];
    }
    __syncthreads();
  }
  if (bad && found) *found = 1;
}
EXPORT(unpack);
