package data

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/paragon-train/paragon/data/internal/npy"
	"github.com/paragon-train/paragon/data/internal/source/shards"
	"github.com/paragon-train/paragon/data/internal/source/sidecar"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// A TokensConfig says how OpenTokens cuts files of tokens into windows.
type TokensConfig struct {
	// Length is how many tokens a model sees at once, the T of a window. Zero means 1024.
	Length int
	// Stride is how far apart windows begin. Zero means Length, so that each token is seen once
	// and the last one of a window is the first one of the next, as in llm.c.
	Stride int
	// Width is how many bytes a token has in files without a header: 2, or 4. Zero means 2, as
	// in nanoGPT.
	Width int
	// Vocabulary is the number of tokens that there are: one that is not below it is an error
	// that names its place. Zero: any token may be there.
	Vocabulary int
	// MaskAfter are tokens that end a document. What follows one is no continuation of it, so
	// its target is −1, which losses leave out. Nil: every token has a target.
	MaskAfter []int32
	// CacheDir is a local folder that keeps what was read over a network for the next epoch,
	// and the next run. Empty: nothing is kept.
	CacheDir string
	// CacheBytes bounds the cache. Zero means 64 GiB.
	CacheBytes int64
	// AheadBytes bounds what is read ahead over a network. Zero means 256 MiB.
	AheadBytes int64
}

// Validate returns an error that names a field of cfg that cannot be used.
func (cfg TokensConfig) Validate() error {
	switch {
	case cfg.Length < 0 || cfg.Length > maxWindow:
		return fmt.Errorf("data: tokens: Length: got %d, want 1 to %d, or 0 for 1024", cfg.Length, maxWindow)
	case cfg.Stride < 0 || cfg.Stride > maxStride:
		return fmt.Errorf("data: tokens: Stride: got %d, want 1 to %d, or 0 for Length", cfg.Stride, maxStride)
	case cfg.Width != 0 && cfg.Width != 2 && cfg.Width != 4:
		return fmt.Errorf("data: tokens: Width: got %d, want 2 or 4 bytes, or 0 for 2", cfg.Width)
	case cfg.Vocabulary < 0 || cfg.Vocabulary > math.MaxInt32:
		return fmt.Errorf("data: tokens: Vocabulary: got %d, want 1 to %d, or 0 for any", cfg.Vocabulary, math.MaxInt32)
	case cfg.CacheBytes < 0 || cfg.AheadBytes < 0:
		return fmt.Errorf("data: tokens: CacheBytes and AheadBytes: got %d and %d, want at least 0", cfg.CacheBytes, cfg.AheadBytes)
	case cfg.CacheBytes > 0 && cfg.CacheDir == "":
		return fmt.Errorf("data: tokens: CacheBytes: got %d without CacheDir, want a folder for the cache", cfg.CacheBytes)
	}
	return nil
}

const (
	// maxWindow bounds the length of a window.
	maxWindow = 1 << 24
	maxStride = 1 << 28
)

// Tokens are windows of the tokens that a language model is trained on, read from where they lie.
// Its methods may be called from several goroutines at once.
//
// A window is Length tokens and the one behind them, so that the model's inputs are its first
// Length tokens and the targets are these shifted by one. Window i begins i·Stride tokens into its
// file; windows do not cross from one file to the next, and tokens at the end of a file that fill
// no window are left out. Which window is i depends on the files alone, so a sampler that gives
// each i once, to any number of workers, has each window read once:
//
//	tokens, err := data.OpenTokens(ctx, "openwebtext/train.bin", data.TokensConfig{Length: 1024, Vocabulary: 50257})
//	s, err := sampler.Split(tokens.Len(), store.NumWorkers(), store.Rank(), sampler.Ordered(sampler.Permutation))
//	inputs, targets := make([]int32, 1024), make([]int32, 1024)
//	for i := range s.Epoch(epoch) {
//		err := tokens.ReadPair(ctx, i, inputs, targets)
//		// ...
//	}
//
// nanoGPT draws windows at random places, some often and some never; an epoch here has each one
// once, in an order that is mixed.
type Tokens struct {
	cfg    TokensConfig
	store  objects.Store
	ahead  announcer
	files  []tokenFile
	total  int64
	mask   map[int32]bool
	blocks []int
}

// A tokenFile is one file.
type tokenFile struct {
	object objects.Info

	// start is the offset of the first of n tokens.
	start int64
	width int
	n     int64 // tokens

	// array is nil for unsigned numbers of width bytes from start on.
	array *npy.Array

	// first is the number of its first window.
	first int
	count int // windows
}

// OpenTokens opens the files of tokens at a path or URL: one file, or several by a pattern in their
// order, such as "fineweb_train_{000001..000103}.bin", "fineweb_train_*.bin", or names with "::"
// between them.
//
// It reads nanoGPT's .bin files, which are uint16 numbers without a header (uint32 with Width 4),
// those of llm.c, whose header says whether they are GPT-2's (uint16) or Llama 3's (uint32), and
// NumPy's arrays of integers of one dimension (.npy). Train and validation files lie in one folder
// mostly, so a folder alone is an error.
func OpenTokens(ctx context.Context, url string, cfg TokensConfig) (*Tokens, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Length = cmp.Or(cfg.Length, 1024)
	cfg.Stride = cmp.Or(cfg.Stride, cfg.Length)
	cfg.Width = cmp.Or(cfg.Width, 2)
	folder, pattern := splitPattern(url)
	if pattern == "" {
		return nil, fmt.Errorf("data: tokens: %s: got a folder, want a file or a pattern, such as train.bin or fineweb_train_*.bin", folder)
	}
	store, err := objects.Open(ctx, folder)
	if err != nil {
		return nil, fmt.Errorf("data: tokens: %w", err)
	}
	over := OpenOptions{CacheDir: cfg.CacheDir, CacheBytes: cfg.CacheBytes, AheadBytes: cfg.AheadBytes}
	over.setDefaults()
	stacked, ahead, err := stack(store, over)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data: tokens: %w", err), store.Close())
	}
	t := &Tokens{cfg: cfg, store: stacked, ahead: ahead, mask: make(map[int32]bool)}
	if err := t.open(ctx, pattern); err != nil {
		return nil, errors.Join(fmt.Errorf("data: tokens: %w", err), stacked.Close())
	}
	return t, nil
}

// splitPattern splits a URL into the folder of its files and their pattern in it, which is empty
// for a folder.
func splitPattern(url string) (folder, pattern string) {
	address, query := url, ""
	if strings.Contains(url, "://") {
		// A question mark is a pattern's only in a path.
		address, query, _ = strings.Cut(url, "?")
	}
	first, _, _ := strings.Cut(address, "::")
	if special := strings.IndexAny(first, "{*?["); special >= 0 {
		first = first[:special]
	}
	cut := strings.LastIndexByte(first, '/') + 1
	folder, pattern = address[:cut], address[cut:]
	if folder == "" {
		folder = "."
	}
	if query != "" {
		folder += "?" + query
	}
	if pattern == "." || pattern == ".." || path.Ext(pattern) == "" && !strings.ContainsAny(pattern, "{*?[:") {
		return url, ""
	}
	return folder, pattern
}

// open finds the files and counts their windows.
func (t *Tokens) open(ctx context.Context, pattern string) error {
	found, err := shards.Find(ctx, t.store, pattern)
	if err != nil {
		return err
	}
	t.files = make([]tokenFile, len(found))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for k, object := range found {
		g.Go(func() (err error) {
			if t.files[k], err = t.openFile(gctx, object); err != nil {
				return fmt.Errorf("%s: %s: %w", t.store.URL(), object.Name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	windows := int64(0)
	for k := range t.files {
		f := &t.files[k]
		t.total += f.n
		f.first = int(windows)
		if f.n > int64(t.cfg.Length) {
			count := (f.n-int64(t.cfg.Length)-1)/int64(t.cfg.Stride) + 1
			if windows += count; windows > math.MaxInt {
				return errors.New("got more windows than there are numbers")
			}
			f.count = int(count)
		}
	}
	if windows == 0 {
		return fmt.Errorf("%s: %s has %d tokens, want at least Length+1 = %d in a file", t.store.URL(), pattern, t.total, t.cfg.Length+1)
	}
	for _, token := range t.cfg.MaskAfter {
		t.mask[token] = true
	}
	if !sidecar.Local(t.store) {
		t.blocks = t.cut()
	}
	return nil
}

// Magic numbers of llm.c's files, with the version and the bytes of a token that go with them.
const (
	magicGPT2   = 20240520
	magicLlama3 = 20240801
	// tokenHeader is the size of their header: 256 numbers of 32 bits.
	tokenHeader = 1024
)

// openFile reads the head of a file.
func (t *Tokens) openFile(ctx context.Context, object objects.Info) (tokenFile, error) {
	f := tokenFile{object: object, width: t.cfg.Width}
	if strings.HasSuffix(strings.ToLower(object.Name), ".npy") {
		a, err := npy.Open(ctx, t.store, object)
		if err != nil {
			return f, err
		}
		if kind := a.DType().Kind; len(a.RowShape()) > 0 || kind != npy.Int && kind != npy.Uint {
			return f, fmt.Errorf("got an array of %v in %d dimensions, want integers in one", a.DType(), 1+len(a.RowShape()))
		}
		f.array, f.n, f.width = a, int64(a.Rows()), a.DType().Size
		return f, nil
	}
	head := make([]byte, min(12, object.Size))
	if len(head) > 0 {
		if err := t.store.ReadRange(ctx, object, head, 0); err != nil {
			return f, err
		}
	}
	if len(head) >= 2 && head[0] == 0x1f && head[1] == 0x8b && strings.HasSuffix(strings.ToLower(object.Name), "gz") {
		return f, errors.New("the file is compressed, so that no token can be read without all before it: decompress it (gunzip)")
	}
	if len(head) == 12 {
		magic, version, n := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
		want := uint32(0)
		switch magic {
		case magicGPT2:
			f.width, want = 2, 1
		case magicLlama3:
			f.width, want = 4, 7
		}
		if want != 0 {
			if version != want {
				return f, fmt.Errorf("got a header %d of version %d, want version %d: write the file anew with llm.c's scripts", magic, version, want)
			}
			if size := tokenHeader + int64(n)*int64(f.width); size != object.Size {
				return f, fmt.Errorf("the header says %d tokens of %d bytes, which makes %d bytes, and the file has %d", n, f.width, size, object.Size)
			}
			f.start, f.n = tokenHeader, int64(n)
			return f, nil
		}
	}
	if object.Size%int64(f.width) != 0 {
		return f, fmt.Errorf("got %d bytes, want whole tokens of %d: the file is cut short, or its tokens have another width", object.Size, f.width)
	}
	f.n = object.Size / int64(f.width)
	return f, nil
}

// blockTokens is how many bytes of consecutive windows are cheap to read together over a network.
const blockTokens = 4 << 20

// cut cuts the windows of each file into blocks.
func (t *Tokens) cut() (firsts []int) {
	for k := range t.files {
		f := &t.files[k]
		each := max(1, blockTokens/(f.width*t.cfg.Stride))
		for first := 0; first < f.count; first += each {
			firsts = append(firsts, f.first+first)
		}
	}
	return firsts
}

// Len is the number of windows.
func (t *Tokens) Len() int {
	last := &t.files[len(t.files)-1]
	return last.first + last.count
}

// NumTokens is the number of tokens in all files.
func (t *Tokens) NumTokens() int64 { return t.total }

// Length is the number of inputs of a window, and of its targets.
func (t *Tokens) Length() int { return t.cfg.Length }

// Blocks are the numbers of the first windows of runs that are cheap to read together, rising from
// 0; nil: windows in any order are as cheap. See sampler.Blocks.
func (t *Tokens) Blocks() []int { return slices.Clone(t.blocks) }

// Fingerprint tells one state of the data from another: it covers the names and sizes of the files
// in their order, and how they are cut. A copy of the same files in another place has the same one.
func (t *Tokens) Fingerprint() string {
	h := sha256.New()
	fmt.Fprintf(h, "tokens %d %d\n", t.cfg.Length, t.cfg.Stride)
	for k := range t.files {
		f := &t.files[k]
		fmt.Fprintf(h, "%q %d %d %d %d\n", f.object.Name, f.object.Size, f.start, f.width, f.n)
	}
	return fmt.Sprintf("tokens:%x", h.Sum(nil)[:16])
}

// find returns the file of window i, and the number of the window's first token in it.
func (t *Tokens) find(i int) (f *tokenFile, token int64, err error) {
	if i < 0 || i >= t.Len() {
		return nil, 0, fmt.Errorf("data: tokens: got window %d, want 0 to %d", i, t.Len()-1)
	}
	k := sort.Search(len(t.files), func(k int) bool { return t.files[k].first > i }) - 1
	f = &t.files[k]
	return f, int64(i-f.first) * int64(t.cfg.Stride), nil
}

// Announce implements Announcer for windows.
func (t *Tokens) Announce(ctx context.Context, indices []int) {
	if t.ahead == nil {
		return
	}
	ranges := make([]objects.Range, 0, len(indices))
	for _, i := range indices {
		f, token, err := t.find(i)
		if err != nil {
			continue
		}
		r := objects.Range{Object: f.object, Off: f.start + token*int64(f.width), Length: int64(t.cfg.Length+1) * int64(f.width)}
		if f.array != nil {
			var ok bool
			if r, ok = f.array.Range(int(token), t.cfg.Length+1); !ok {
				continue
			}
		}
		ranges = append(ranges, r)
	}
	t.ahead.Announce(ctx, ranges)
}

// tokenBytes are buffers for the bytes of a window.
var tokenBytes = sync.Pool{New: func() any { return new([]byte) }}

// Read reads window i, in [0, Len), into dst, which has room for Length+1 tokens: dst[:Length] are
// the inputs, and dst[1:Length+1] the targets, if no token of MaskAfter is among them. A
// *BadExampleError says that a token is out of bounds.
func (t *Tokens) Read(ctx context.Context, i int, dst []int32) error {
	f, token, err := t.find(i)
	if err != nil {
		return err
	}
	n := t.cfg.Length + 1
	if len(dst) < n {
		return fmt.Errorf("data: tokens: got room for %d tokens, want Length+1 = %d", len(dst), n)
	}
	dst = dst[:n]
	if f.array != nil {
		wide := make([]int64, n)
		if err := npy.Read(ctx, f.array, int(token), n, wide); err != nil {
			return fmt.Errorf("data: tokens: window %d: %w", i, err)
		}
		for k, v := range wide {
			if v < 0 || v > math.MaxInt32 {
				return t.bad(f, i, token+int64(k), v)
			}
			dst[k] = int32(v)
		}
	} else if err := t.readFlat(ctx, f, i, token, dst); err != nil {
		return err
	}
	if t.cfg.Vocabulary > 0 {
		for k, v := range dst {
			if int(v) >= t.cfg.Vocabulary {
				return t.bad(f, i, token+int64(k), int64(v))
			}
		}
	}
	return nil
}

// readFlat reads tokens of a file that has nothing but them from start on.
func (t *Tokens) readFlat(ctx context.Context, f *tokenFile, i int, token int64, dst []int32) error {
	buf := tokenBytes.Get().(*[]byte)
	defer tokenBytes.Put(buf)
	size := len(dst) * f.width
	if cap(*buf) < size {
		*buf = make([]byte, size)
	}
	p := (*buf)[:size]
	if err := t.store.ReadRange(ctx, f.object, p, f.start+token*int64(f.width)); err != nil {
		return fmt.Errorf("data: tokens: window %d: %w", i, err)
	}
	if f.width == 2 {
		for k := range dst {
			dst[k] = int32(binary.LittleEndian.Uint16(p[2*k:]))
		}
		return nil
	}
	for k := range dst {
		v := binary.LittleEndian.Uint32(p[4*k:])
		if v > math.MaxInt32 {
			return t.bad(f, i, token+int64(k), int64(v))
		}
		dst[k] = int32(v)
	}
	return nil
}

// bad is the error of a token that there cannot be.
func (t *Tokens) bad(f *tokenFile, i int, token, got int64) error {
	limit := int64(cmp.Or(t.cfg.Vocabulary, math.MaxInt32))
	what := "a vocabulary of"
	if t.cfg.Vocabulary == 0 {
		what = "at most"
	}
	return &BadExampleError{Example: i, Name: fmt.Sprintf("%s, token %d", f.object.Name, token),
		Err: fmt.Errorf("got token %d, want %s %d: the file is damaged, or its tokens have another width or tokenizer", got, what, limit)}
}

// ReadPair reads the inputs and the targets of window i, Length tokens each. The target behind a
// token of MaskAfter is −1.
func (t *Tokens) ReadPair(ctx context.Context, i int, inputs, targets []int32) error {
	n := t.cfg.Length
	if len(inputs) < n || len(targets) < n {
		return fmt.Errorf("data: tokens: got room for %d inputs and %d targets, want %d each", len(inputs), len(targets), n)
	}
	window := make([]int32, n+1)
	if err := t.Read(ctx, i, window); err != nil {
		return err
	}
	copy(inputs, window[:n])
	copy(targets, window[1:])
	if len(t.mask) > 0 {
		for k, token := range window[:n] {
			if t.mask[token] {
				targets[k] = -1
			}
		}
	}
	return nil
}

// Close gives back files and connections. No other call may be under way.
func (t *Tokens) Close() error { return t.store.Close() }
