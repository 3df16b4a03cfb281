package objects_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// childVariable makes the test program one that reads through a cache: its value is the mode, the
// cache's folder, the server's URL and a seed.
const childVariable = "OBJECTS_TEST_CACHE"

func TestMain(m *testing.M) {
	if what := strings.Fields(os.Getenv(childVariable)); len(what) == 4 {
		if err := readAsChild(what[0], what[1], what[2], what[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childBlocks is how many blocks the object has that children read.
const childBlocks = 40

// readAsChild reads each block once, or at random until it is killed.
func readAsChild(mode, dir, address, seed string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	cfg := small(dir)
	if mode == "once" {
		cfg.Bytes *= 4
	}
	cache, err := objects.NewCache(objects.NewHTTP(u, objects.HTTPConfig{}), cfg)
	if err != nil {
		return err
	}
	defer cache.Close()
	data := random(childBlocks * page)
	object, err := cache.Stat(context.Background(), "a")
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(uint64(len(seed)), uint64(seed[0])))
	order := rng.Perm(childBlocks)
	for n := 0; mode == "random" || n < childBlocks; n++ {
		off, p := order[n%childBlocks]*page, make([]byte, page)
		if mode == "random" {
			off, p = rng.IntN(len(data)-page), p[:1+rng.IntN(page)]
		}
		if err := cache.ReadRange(context.Background(), object, p, int64(off)); err != nil {
			return err
		}
		if !bytes.Equal(p, data[off:off+len(p)]) {
			return fmt.Errorf("got other bytes from byte %d", off)
		}
		fmt.Println(n)
	}
	return nil
}

// child starts a process that reads.
func child(t *testing.T, mode, dir string, s *site, seed int) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s/data %d", childVariable, mode, dir, s.URL, seed))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}

// fetched counts the requests for each range but that of Stat.
func (s *site) fetched() map[string]int {
	n := map[string]int{}
	for _, r := range s.requests() {
		if at := r.Header.Get("Range"); at != "bytes=0-0" {
			n[at]++
		}
	}
	return n
}

// Processes of a host fetch each block once together.
func TestProcessesShareBlocks(t *testing.T) {
	s := newSite(t, map[string][]byte{"a": random(childBlocks * page)})
	s.mu.Lock()
	s.fault = func(int, http.ResponseWriter, *http.Request) bool {
		time.Sleep(time.Millisecond) // They meet at the same blocks.
		return false
	}
	s.mu.Unlock()
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 3 {
		cmd, out := child(t, "once", dir, s, i)
		all.Go(func() {
			_, _ = io.Copy(io.Discard, out)
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for at, n := range s.fetched() {
		if n != 1 {
			t.Errorf("%s was fetched %d times", at, n)
		}
	}
	if blocks, others := blockFiles(t, dir); len(blocks) != childBlocks || len(others) != 0 {
		t.Errorf("got %d blocks and %q, want %d blocks", len(blocks), others, childBlocks)
	}
}

// Processes that are killed at any moment leave sound blocks below the bound, and none is shut out.
func TestTheCacheIsSoundAfterKills(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := newSite(t, map[string][]byte{"a": random(childBlocks * page)})
	dir, rounds := t.TempDir(), 3
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		rounds = 100
	}
	for round := range rounds {
		for i := range 2 {
			cmd, out := child(t, "random", dir, s, 2*round+i)
			for range 1 + rng.IntN(40) { // Between two lines is any moment.
				if _, err := out.ReadString('\n'); err != nil {
					t.Error(err)
					break
				}
			}
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Error(err)
			}
			_ = cmd.Wait()
		}
		blocks, _ := blockFiles(t, dir)
		for _, path := range blocks {
			if err := objects.VerifyBlock(path, page); err != nil {
				t.Errorf("round %d: %s: %v", round, path, err)
			}
		}
		if size, most := sizeOf(t, blocks), small(dir).Bytes; size > most {
			t.Errorf("round %d: %d blocks have %d bytes, want at most %d", round, len(blocks), size, most)
		}
	}
	// Two at once, to whom the killed ones have left what they had.
	var all sync.WaitGroup
	for i := range 2 {
		cmd, out := child(t, "once", dir, s, i)
		all.Go(func() {
			_, _ = io.Copy(io.Discard, out)
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	blocks, others := blockFiles(t, dir)
	if len(blocks) != childBlocks {
		t.Errorf("got %d blocks, want %d", len(blocks), childBlocks)
	}
	if slices.ContainsFunc(others, func(path string) bool { return !strings.HasSuffix(path, ".lock") && !strings.HasSuffix(path, ".part") }) {
		t.Errorf("got %q", others)
	}
	// What is left of killed ones goes when blocks are counted.
	newCache(t, nil, small(dir))
	blocks, others = blockFiles(t, dir)
	if size := sizeOf(t, append(blocks, others...)); size > small(dir).Bytes {
		t.Errorf("%d bytes are left, want at most %d", size, small(dir).Bytes)
	}
}

// Several processes at once stay below the bound together.
func TestProcessesStayBelowTheBoundTogether(t *testing.T) {
	s := newSite(t, map[string][]byte{"a": random(childBlocks * page)})
	dir := t.TempDir()
	var cmds []*exec.Cmd
	for i := range 3 {
		cmd, out := child(t, "random", dir, s, i)
		cmds = append(cmds, cmd)
		for range 40 {
			if _, err := out.ReadString('\n'); err != nil {
				t.Error(err)
				break
			}
		}
		// Those before it go on, until their pipes are full.
	}
	for _, cmd := range cmds {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	blocks, _ := blockFiles(t, dir)
	if size := sizeOf(t, blocks); size > small(dir).Bytes || len(blocks) < 10 {
		t.Errorf("%d blocks have %d bytes, want at most %d, and nearly that", len(blocks), size, small(dir).Bytes)
	}
}
