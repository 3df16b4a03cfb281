package browser

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const (
	// startLimit is for a machine on which other tests keep all processors busy.
	startLimit = time.Minute
	// callLimit bounds everything that is asked of a page.
	callLimit = 30 * time.Second
)

// A Browser is a running Chromium. Tests that share one may run at once.
type Browser struct {
	ctx context.Context
}

// Start starts Chromium and stops it when the test ends. Where there is none it skips the test, or
// fails it with PARAGON_TEST_REQUIRE=all.
func Start(t testing.TB) *Browser {
	t.Helper()
	program, err := find()
	if err != nil {
		if os.Getenv("PARAGON_TEST_REQUIRE") == "all" {
			t.Fatalf("PARAGON_TEST_REQUIRE=all, and %v", err)
		}
		t.Skip(err)
	}
	profile := filepath.Join(t.TempDir(), "profile")
	var said output
	// As root it runs without its sandbox, which does not work there.
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.UserDataDir(profile),
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"),
		chromedp.CombinedOutput(&said),

		// Nothing is written in the user's folder.
		chromedp.Env("HOME="+filepath.Dir(profile)),
	)
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		limited, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		if err := chromedp.Cancel(limited); err != nil && t.Failed() {
			t.Logf("chromium: close: %v", err)
		}
		stop()
		stopAllocator()
		removeProfile(t, filepath.Dir(profile))
	})

	// The browser lives as long as the context of the first call, which therefore has no
	// deadline of its own.
	late := time.AfterFunc(startLimit, stop)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s (it has %v): %v\n%s", program, startLimit, err, said.String())
	}
	late.Stop()
	return &Browser{ctx: ctx}
}

// find returns where Chromium is.
func find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no chromium here: install Debian's package chromium")
}

// removeProfile removes a folder in which processes of a browser that has ended may still write.
func removeProfile(t testing.TB, dir string) {
	err := os.RemoveAll(dir)
	for wait := time.Millisecond; err != nil && wait < 4*time.Second; wait *= 2 {
		time.Sleep(wait)
		err = os.RemoveAll(dir)
	}
	if err != nil {
		t.Logf("chromium's profile: %v", err)
	}
}

// output keeps the end of what Chromium prints.
type output struct {
	mu   sync.Mutex
	last bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last.Len() > 1<<16 {
		o.last.Reset()
	}
	return o.last.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last.String()
}
