package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
	"github.com/paragon-train/paragon/sampler"
)

// flat has tokens of width bytes each, without a header.
func flat(width int, tokens ...uint32) (p []byte) {
	for _, t := range tokens {
		if width == 2 {
			p = binary.LittleEndian.AppendUint16(p, uint16(t))
		} else {
			p = binary.LittleEndian.AppendUint32(p, t)
		}
	}
	return p
}

// llmc makes a file of llm.c's.
func llmc(magic, version uint32, width int, tokens ...uint32) []byte {
	head := make([]byte, tokenHeader)
	copy(head, flat(4, magic, version, uint32(len(tokens))))
	return append(head, flat(width, tokens...)...)
}

// npyTokens makes a NumPy array of one dimension.
func npyTokens(descr string, n int, data []byte) []byte {
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", descr, n)
	return slices.Concat([]byte("\x93NUMPY\x01\x00"), []byte{byte(len(dict)), 0}, []byte(dict), data)
}

func tokensTo(n int) (tokens []uint32) {
	for k := range n {
		tokens = append(tokens, uint32(k))
	}
	return tokens
}

func tokenFolder(t testing.TB, files map[string][]byte) string {
	t.Helper()
	folder := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func openTokens(t testing.TB, url string, cfg TokensConfig) *Tokens {
	t.Helper()
	tokens, err := OpenTokens(t.Context(), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tokens.Close() })
	return tokens
}

func windows(t testing.TB, tokens *Tokens) (all [][]int32) {
	t.Helper()
	for i := range tokens.Len() {
		w := make([]int32, tokens.Length()+1)
		if err := tokens.Read(t.Context(), i, w); err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

func TestTokensOfAllFormats(t *testing.T) {
	numbers := tokensTo(10)
	var wide []byte
	for _, n := range numbers {
		wide = binary.LittleEndian.AppendUint64(wide, uint64(n))
	}
	var big []byte
	for _, n := range numbers {
		big = binary.BigEndian.AppendUint32(big, n)
	}
	folder := tokenFolder(t, map[string][]byte{
		"nano.bin": flat(2, numbers...), "nano4.bin": flat(4, numbers...), "gpt2.bin": llmc(20240520, 1, 2, numbers...), "llama3.bin": llmc(20240801, 7, 4, numbers...),
		"u2.npy": npyTokens("<u2", 10, flat(2, numbers...)), "i4.npy": npyTokens(">i4", 10, big), "i8.npy": npyTokens("<i8", 10, wide),
	})
	for _, tc := range []struct {
		name  string
		width int
	}{{"nano.bin", 0}, {"nano4.bin", 4}, {"gpt2.bin", 0}, {"llama3.bin", 0}, {"u2.npy", 0}, {"i4.npy", 0}, {"i8.npy", 0}} {
		tokens := openTokens(t, folder+"/"+tc.name, TokensConfig{Length: 3, Width: tc.width, Vocabulary: 10})
		if tokens.NumTokens() != 10 {
			t.Errorf("%s: got %d tokens, want 10", tc.name, tokens.NumTokens())
		}
		want := [][]int32{{0, 1, 2, 3}, {3, 4, 5, 6}, {6, 7, 8, 9}}
		if got := windows(t, tokens); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: got windows %v, want %v", tc.name, got, want)
		}
	}
}

func TestWindowsStayWithinTheirFiles(t *testing.T) {
	folder := tokenFolder(t, map[string][]byte{"t-0.bin": flat(2, 0, 1, 2, 3, 4), "t-1.bin": flat(2, 10, 11), "t-2.bin": flat(2, 20, 21, 22)})
	for _, tc := range []struct {
		pattern        string
		length, stride int
		want           [][]int32
	}{
		{"t-*.bin", 2, 0, [][]int32{{0, 1, 2}, {2, 3, 4}, {20, 21, 22}}},
		{"t-{2..0}.bin", 2, 1, [][]int32{{20, 21, 22}, {0, 1, 2}, {1, 2, 3}, {2, 3, 4}}},
		{"t-1.bin::t-0.bin", 1, 3, [][]int32{{10, 11}, {0, 1}, {3, 4}}},
		{"t-0.bin", 4, 0, [][]int32{{0, 1, 2, 3, 4}}},
	} {
		tokens := openTokens(t, folder+"/"+tc.pattern, TokensConfig{Length: tc.length, Stride: tc.stride})
		if got := windows(t, tokens); !slices.EqualFunc(got, tc.want, slices.Equal) {
			t.Errorf("%s of %d every %d: got %v, want %v", tc.pattern, tc.length, tc.stride, got, tc.want)
		}
	}
	_, err := OpenTokens(t.Context(), folder+"/t-0.bin", TokensConfig{Length: 5})
	if err == nil || !strings.Contains(err.Error(), "t-0.bin has 5 tokens, want at least Length+1 = 6 in a file") {
		t.Errorf("got %v", err)
	}
}

// Each window is read once, whoever reads: three workers and then two have all of them.
func TestWorkersReadEachWindowOnce(t *testing.T) {
	folder := tokenFolder(t, map[string][]byte{"train.bin": flat(2, tokensTo(1001)...)})
	for _, workers := range []int{1, 2, 3} {
		counts := make([]int, 100)
		for rank := range workers {
			tokens := openTokens(t, folder+"/train.bin", TokensConfig{Length: 10})
			s, err := sampler.Split(tokens.Len(), workers, rank, sampler.Ordered(sampler.Permutation))
			if err != nil {
				t.Fatal(err)
			}
			inputs, targets := make([]int32, 10), make([]int32, 10)
			for i := range s.Epoch(1) {
				if err := tokens.ReadPair(t.Context(), i, inputs, targets); err != nil {
					t.Fatal(err)
				}
				counts[inputs[0]/10]++
				if !slices.Equal(inputs[1:], targets[:9]) || targets[9] != inputs[9]+1 {
					t.Errorf("window %d: got inputs %v and targets %v", i, inputs, targets)
				}
			}
		}
		for i, n := range counts {
			if n != 1 {
				t.Errorf("%d workers: window %d was read %d times", workers, i, n)
			}
		}
	}
}

func TestTargetsBehindTheEndOfADocumentAreMasked(t *testing.T) {
	folder := tokenFolder(t, map[string][]byte{"a.bin": flat(2, 1, 2, 50256, 3, 4, 50256, 5)})
	tokens := openTokens(t, folder+"/a.bin", TokensConfig{Length: 6, MaskAfter: []int32{50256}})
	inputs, targets := make([]int32, 6), make([]int32, 6)
	if err := tokens.ReadPair(t.Context(), 0, inputs, targets); err != nil {
		t.Fatal(err)
	}
	if want := []int32{2, 50256, -1, 4, 50256, -1}; !slices.Equal(targets, want) || !slices.Equal(inputs, []int32{1, 2, 50256, 3, 4, 50256}) {
		t.Errorf("got inputs %v and targets %v, want %v", inputs, targets, want)
	}
}

func TestTokensOutOfBoundsAreNamed(t *testing.T) {
	folder := tokenFolder(t, map[string][]byte{
		"a.bin": flat(2, 1, 2, 3, 4, 5, 6, 700, 8), "b.bin": flat(4, 1, 2, 3, 1<<31), "c.npy": npyTokens("<i8", 2, slices.Concat(flat(4, 1, 0), bytes.Repeat([]byte{0xff}, 8))),
	})
	for _, tc := range []struct {
		name   string
		cfg    TokensConfig
		window int
		want   string
	}{
		{"a.bin", TokensConfig{Length: 3, Vocabulary: 100}, 1, "example 1 (a.bin, token 6): got token 700, want a vocabulary of 100"},
		{"b.bin", TokensConfig{Length: 3, Width: 4}, 0, "example 0 (b.bin, token 3): got token 2147483648, want at most 2147483647"},
		{"c.npy", TokensConfig{Length: 1}, 0, "example 0 (c.npy, token 1): got token -1, want at most 2147483647"},
	} {
		tokens := openTokens(t, folder+"/"+tc.name, tc.cfg)
		err := tokens.ReadPair(t.Context(), tc.window, make([]int32, 10), make([]int32, 10))
		var bad *BadExampleError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestTokenFilesThatCannotBeReadAreRefused(t *testing.T) {
	good := llmc(20240520, 1, 2, tokensTo(10)...)
	folder := tokenFolder(t, map[string][]byte{
		"cut.bin": good[:len(good)-2], "long.bin": append(bytes.Clone(good), 0, 0), "version.bin": llmc(20240520, 2, 2, 1, 2), "llama.bin": llmc(20240801, 1, 4, 1, 2),
		"odd.bin": {1, 2, 3}, "odd4.bin": {1, 2, 3, 4, 5, 6}, "empty.bin": {}, "f.npy": npyTokens("<f4", 1, make([]byte, 4)), "cut.npy": npyTokens("<u2", 9, make([]byte, 4)), "x.bin.gz": {0x1f, 0x8b, 8, 0},
		"two.npy": []byte(strings.Replace(string(npyTokens("<u2", 9, make([]byte, 18))), "(9,)", "(3,3)", 1)),
	})
	for _, tc := range []struct {
		name string
		cfg  TokensConfig
		want string
	}{
		{"cut.bin", TokensConfig{}, "cut.bin: the header says 10 tokens of 2 bytes, which makes 1044 bytes, and the file has 1042"},
		{"long.bin", TokensConfig{}, "and the file has 1046"},
		{"version.bin", TokensConfig{}, "a header 20240520 of version 2, want version 1"},
		{"llama.bin", TokensConfig{}, "a header 20240801 of version 1, want version 7"},
		{"odd.bin", TokensConfig{}, "got 3 bytes, want whole tokens of 2"},
		{"odd4.bin", TokensConfig{Width: 4}, "got 6 bytes, want whole tokens of 4"},
		{"empty.bin", TokensConfig{}, "has 0 tokens"},
		{"f.npy", TokensConfig{}, "an array of float32 in 1 dimensions, want integers in one"},
		{"cut.npy", TokensConfig{}, "cut short"},
		{"x.bin.gz", TokensConfig{}, "gunzip"},
		{"none.bin", TokensConfig{}, "none.bin"},
		{"none*.bin", TokensConfig{}, "none*.bin"},
		{"", TokensConfig{}, "got a folder, want a file or a pattern"},
		{"cut.bin", TokensConfig{Length: -1}, "Length: got -1"},
		{"cut.bin", TokensConfig{Length: 1<<24 + 1}, "Length: got"},
		{"cut.bin", TokensConfig{Stride: -1}, "Stride: got -1"},
		{"cut.bin", TokensConfig{Width: 3}, "Width: got 3"},
		{"cut.bin", TokensConfig{Vocabulary: -1}, "Vocabulary: got -1"},
		{"cut.bin", TokensConfig{AheadBytes: -1}, "CacheBytes and AheadBytes: got 0 and -1"},
		{"cut.bin", TokensConfig{CacheBytes: 1}, "CacheBytes: got 1 without CacheDir"},
	} {
		_, err := OpenTokens(t.Context(), folder+"/"+tc.name, tc.cfg)
		if err == nil || !strings.HasPrefix(err.Error(), "data: tokens: ") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := OpenTokens(t.Context(), folder+"/none.bin", TokensConfig{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	if _, err := OpenTokens(t.Context(), folder, TokensConfig{}); err == nil {
		t.Error("a folder: got no error")
	}
	tokens := openTokens(t, folder+"/odd4.bin", TokensConfig{Length: 1})
	for _, i := range []int{-1, 2} {
		if err := tokens.Read(t.Context(), i, make([]int32, 2)); err == nil {
			t.Errorf("window %d of 2: got no error", i)
		}
	}
	if err := tokens.Read(t.Context(), 0, make([]int32, 1)); err == nil {
		t.Error("room for too few tokens: got no error")
	}
	if err := tokens.ReadPair(t.Context(), 0, make([]int32, 1), nil); err == nil {
		t.Error("room for no targets: got no error")
	}
}

func TestPatternsOfURLs(t *testing.T) {
	for url, want := range map[string][2]string{
		"train.bin":                        {".", "train.bin"},
		"/d/x/train_{00..10}.bin":          {"/d/x/", "train_{00..10}.bin"},
		"/d/{a,b}/x.bin":                   {"/d/", "{a,b}/x.bin"},
		"/d/a.bin::e/b.bin":                {"/d/", "a.bin::e/b.bin"},
		"s3://b/p/t_*.bin?region=x":        {"s3://b/p/?region=x", "t_*.bin"},
		"https://h/a.bin":                  {"https://h/", "a.bin"},
		"/d/x":                             {"/d/x", ""},
		"/d/x/":                            {"/d/x/", ""},
		"..":                               {"..", ""},
		"part-?.bin":                       {".", "part-?.bin"},
		"s3://bucket/folder":               {"s3://bucket/folder", ""},
		"file:///d/fineweb_{1..3}.bin?x=y": {"file:///d/?x=y", "fineweb_{1..3}.bin"},
	} {
		if folder, pattern := splitPattern(url); folder != want[0] || pattern != want[1] {
			t.Errorf("%s: got %q and %q, want %q", url, folder, pattern, want)
		}
	}
}

// memoryTokens opens files in a store of the network.
func memoryTokens(t testing.TB, files map[string][]byte, pattern string, cfg TokensConfig) (*Tokens, *objectstest.Memory, error) {
	t.Helper()
	store := objectstest.New(files)
	tokens := &Tokens{cfg: cfg, store: store, mask: make(map[int32]bool)}
	err := tokens.open(t.Context(), pattern)
	return tokens, store, err
}

func TestWindowsFarAwayAreOneRequestEach(t *testing.T) {
	tokens, store, err := memoryTokens(t, map[string][]byte{"a.bin": flat(2, tokensTo(60_000)...)}, "a.bin", TokensConfig{Length: 16, Stride: 16, Width: 2})
	if err != nil {
		t.Fatal(err)
	}
	before := len(store.Calls())
	var wg sync.WaitGroup
	for reader := range 4 {
		wg.Go(func() {
			w := make([]int32, 17)
			for i := reader; i < 100; i += 4 {
				if err := tokens.Read(context.Background(), i, w); err != nil || w[0] != int32(16*i) || w[16] != int32(16*i+16) {
					t.Errorf("window %d: got %v (%v)", i, w, err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(store.Calls()) - before; n != 100 {
		t.Errorf("100 windows took %d requests", n)
	}
	if got := tokens.Blocks(); !slices.Equal(got, []int{0}) {
		t.Errorf("got blocks %v, want one", got)
	}
	many, _, err := memoryTokens(t, map[string][]byte{"a.bin": make([]byte, 10<<20), "b.bin": make([]byte, 100)}, "*.bin", TokensConfig{Length: 1024, Stride: 1024, Width: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := many.Blocks(); !slices.Equal(got, []int{0, 2048, 4096}) {
		t.Errorf("got blocks %v, want one every 4 MiB", got)
	}
	other, _, err := memoryTokens(t, map[string][]byte{"a.bin": flat(2, tokensTo(60_000)...)}, "a.bin", TokensConfig{Length: 16, Stride: 8, Width: 2})
	if err != nil {
		t.Fatal(err)
	}
	if tokens.Fingerprint() == other.Fingerprint() || tokens.Fingerprint() == many.Fingerprint() {
		t.Error("other windows have the same fingerprint")
	}
	store.Put("a.bin", flat(2, tokensTo(60_000)...))
	if err := tokens.Read(t.Context(), 0, make([]int32, 17)); err == nil {
		t.Error("a file that has changed: got no error")
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("a.bin", llmc(20240520, 1, 2, 1, 2, 3), 2)
	f.Add("a.bin", llmc(20240801, 7, 4, 1, 2, 3), 2)
	f.Add("a.npy", npyTokens("<i4", 3, flat(4, 1, 2, 3)), 1)
	f.Fuzz(func(t *testing.T, name string, data []byte, length int) {
		if name != "a.npy" {
			name = "a.bin"
		}
		length = max(1, min(length, 100))
		tokens, _, err := memoryTokens(t, map[string][]byte{name: data}, name, TokensConfig{Length: length, Stride: length, Width: 2, Vocabulary: math.MaxInt32})
		if err != nil {
			return
		}
		w := make([]int32, length+1)
		for i := range min(tokens.Len(), 1000) {
			err := tokens.Read(t.Context(), i, w)
			for _, token := range w {
				if err == nil && token < 0 {
					t.Errorf("got token %d", token)
				}
			}
		}
	})
}
