package objects_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A flatBackend lists names in pages of 100, a request in 100 ms, and no levels.
type flatBackend struct {
	names []string // sorted
	fail  func(request int) error

	mu       sync.Mutex // guards requests
	requests int
}

func (b *flatBackend) URL() string { return "flat://" }
func (b *flatBackend) Stat(context.Context, string) (objects.Info, error) {
	return objects.Info{}, nil
}
func (b *flatBackend) Get(context.Context, objects.Info, int64, int64) (io.ReadCloser, error) {
	return nil, nil
}
func (b *flatBackend) Close() error { return nil }

func (b *flatBackend) begin(ctx context.Context) error {
	b.mu.Lock()
	b.requests++
	n := b.requests
	b.mu.Unlock()
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.fail != nil {
		return b.fail(n)
	}
	return nil
}

func (b *flatBackend) Page(ctx context.Context, prefix, token string) ([]objects.Info, string, error) {
	page, _, next, err := b.list(ctx, prefix, token, false)
	return page, next, err
}

func (b *flatBackend) list(ctx context.Context, prefix, token string, level bool) (page []objects.Info, folders []string, next string, err error) {
	if err := b.begin(ctx); err != nil {
		return nil, nil, "", err
	}
	last := ""
	for _, name := range b.names {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		if i := strings.IndexByte(rest, '/'); level && i >= 0 {
			name = prefix + rest[:i+1]
		}
		if name <= token || name == last {
			continue
		}
		if len(page)+len(folders) == 100 {
			return page, folders, last, nil
		}
		if last = name; strings.HasSuffix(name, "/") {
			folders = append(folders, name)
		} else {
			page = append(page, objects.Info{Name: name})
		}
	}
	return page, folders, "", nil
}

// A levelBackend has levels, too.
type levelBackend struct{ flatBackend }

func (b *levelBackend) Level(ctx context.Context, prefix, token string) ([]objects.Info, []string, string, error) {
	return b.list(ctx, prefix, token, true)
}

// shapes are trees of names, and within which time they are to be listed.
func shapes() map[string]struct {
	names  []string
	within time.Duration
} {
	classes := func(prefix string, n, each int) (names []string) {
		for c := range n {
			for i := range each {
				names = append(names, fmt.Sprintf("%sn%04d/%05d.jpg", prefix, c, i))
			}
		}
		return names
	}
	flat := make([]string, 5000)
	for i := range flat {
		flat[i] = fmt.Sprintf("data/%05d.tar", i)
	}
	type shape = struct {
		names  []string
		within time.Duration
	}
	return map[string]shape{
		"empty":    {nil, 100 * time.Millisecond},
		"one page": {classes("", 20, 5), 100 * time.Millisecond},
		// 64 classes of 3 pages: one page, one level, and four turns of 16 classes.
		"classes":       {classes("", 64, 250), 1500 * time.Millisecond},
		"train and val": {append(append(classes("val/", 64, 30), classes("train/", 64, 250)...), "LICENSE", "train.txt", "train/README", "val-list.txt"), 3 * time.Second},
		// A flat level is found out by its first 11 pages; then it is listed page by page.
		"flat":               {flat, 6500 * time.Millisecond},
		"one folder of many": {append(slices.Clone(flat), classes("a/", 2, 10)...), 8 * time.Second},
		"files between":      {append(classes("d", 10, 300), "d", "dn0001-x", "dn0001", "dn0002.jpg", "dn0003", "zz"), 1500 * time.Millisecond},
	}
}

func listAll(ctx context.Context, store objects.Store, prefix string) (names []string, err error) {
	for info, err := range store.List(ctx, prefix) {
		if err != nil {
			return names, err
		}
		names = append(names, info.Name)
	}
	return names, nil
}

// Lists by folders at once are those page by page, and take less time.
func TestFoldersAreListedAtOnceInTheOrderOfNames(t *testing.T) {
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := slices.Sorted(slices.Values(shape.names))
				store := objects.NewRemote(&levelBackend{flatBackend{names: want}}, quiet())
				began := time.Now()
				got, err := listAll(t.Context(), store, "")
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("got %d names and error %v, want %d: the first that differ are %q", len(got), err, len(want), firstDifference(got, want))
				}
				if took := time.Since(began); took > shape.within {
					t.Errorf("took %v, want at most %v", took, shape.within)
				}
				for _, prefix := range []string{"train", "train/", "n00", "d", "dn0001/", "data/0", "none"} {
					var some []string
					for _, name := range want {
						if strings.HasPrefix(name, prefix) {
							some = append(some, name)
						}
					}
					if got, err := listAll(t.Context(), store, prefix); err != nil || !slices.Equal(got, some) {
						t.Errorf("prefix %q: got %d names and error %v, want %d", prefix, len(got), err, len(some))
					}
				}
			})
		})
	}
}

func firstDifference(a, b []string) []string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return []string{a[i], b[i]}
		}
	}
	return nil
}

// A lossyBackend's levels leave out a folder.
type lossyBackend struct{ levelBackend }

func (b *lossyBackend) Level(ctx context.Context, prefix, token string) ([]objects.Info, []string, string, error) {
	page, folders, next, err := b.levelBackend.Level(ctx, prefix, token)
	return page, slices.DeleteFunc(folders, func(f string) bool { return f == "n0000/" }), next, err
}

// A server that leaves out folders where it lists levels does not make data disappear.
func TestLevelsThatLeaveSomethingOutAreNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := slices.Sorted(slices.Values(shapes()["classes"].names))
		store := objects.NewRemote(&lossyBackend{levelBackend{flatBackend{names: names}}}, quiet())
		if got, err := listAll(t.Context(), store, ""); err != nil || !slices.Equal(got, names) {
			t.Errorf("got %d names and error %v, want %d", len(got), err, len(names))
		}
	})
}

// A list that fails or is left ends at once, and so do the requests for the folders behind.
func TestAListAtOnceEndsWithAllItsRequests(t *testing.T) {
	names := slices.Sorted(slices.Values(shapes()["classes"].names))
	for _, c := range []struct{ failAt, leaveAt int }{{5, -1}, {20, -1}, {60, -1}, {-1, 0}, {-1, 150}, {-1, 5000}} {
		synctest.Test(t, func(t *testing.T) {
			gone := objects.Permanent(errors.New("gone"))
			b := &levelBackend{flatBackend{names: names}}
			b.fail = func(n int) error {
				if n == c.failAt {
					return gone
				}
				return nil
			}
			n := 0
			var last error
			for info, err := range objects.NewRemote(b, quiet()).List(t.Context(), "") {
				if last = err; err != nil {
					continue
				}
				if info.Name != names[n] {
					t.Fatalf("name %d is %s, want %s", n, info.Name, names[n])
				}
				if n++; n > c.leaveAt && c.leaveAt >= 0 {
					break
				}
			}
			if c.failAt > 0 != (last != nil) {
				t.Errorf("a failure at request %d: got error %v after %d names", c.failAt, last, n)
			}
		})
	}
}

func TestAListAtOnceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &levelBackend{flatBackend{names: slices.Sorted(slices.Values(shapes()["classes"].names))}}
		ctx, cancel := context.WithTimeout(t.Context(), 450*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := listAll(ctx, objects.NewRemote(b, quiet()), ""); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 450*time.Millisecond {
			t.Errorf("got error %v after %v, want %v after 450ms", err, time.Since(began), context.DeadlineExceeded)
		}
	})
}
