package browser

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// A View is how a person sees a page.
type View struct {
	// Width and Height are the page's in pixels.
	Width, Height int

	// Dark says that the system prefers dark colours.
	Dark bool
}

// A Page is a tab with cookies and storage of its own. It belongs to one test and one goroutine.
type Page struct {
	t      testing.TB
	ctx    context.Context
	faults *faults
}

// Open loads a page in a new tab and returns when it has loaded. The tab is closed when the test
// ends.
func (b *Browser) Open(t testing.TB, url string, view View) *Page {
	t.Helper()
	p := &Page{t: t, faults: newFaults(url)}
	ctx, closeTab := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.faults.see))
	p.ctx = ctx
	t.Cleanup(closeTab)
	// The tab lives as long as the context of the first call.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a tab for %s: %v", url, err)
	}
	p.Resize(view)
	p.Go(url)
	return p
}

// Go loads another page in the same tab. Its host may be asked from now on, too.
func (p *Page) Go(url string) {
	p.t.Helper()
	p.faults.allow(url)
	Do(p, "load "+url, chromedp.Navigate(url))
}

// Resize changes how the page is seen.
func (p *Page) Resize(view View) {
	p.t.Helper()
	scheme := "light"
	if view.Dark {
		scheme = "dark"
	}
	Do(p, "set the size", chromedp.EmulateViewport(int64(view.Width), int64(view.Height)))
	Do(p, "prefer "+scheme, func(ctx context.Context, tab *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return chromedp.Void{}, err
	})
}

// Do runs an action of chromedp on the page and returns its result. The test fails where the action
// does, or takes longer than half a minute.
func Do[T any](p *Page, what string, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, callLimit)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatalf("%s: %v%s", what, err, p.faults.text())
	}
	return result
}

// Eval returns the value of a JavaScript expression, of a promise its result. The page's
// Content-Security-Policy does not matter to it.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	return Do(p, expression, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// WaitFor waits until a JavaScript expression is true. The page may be another one in between.
func (p *Page) WaitFor(expression string) {
	p.t.Helper()
	wait := fmt.Sprintf(`new Promise((resolve, reject) => {
	const look = () => {
		try { if (%s) { resolve(true); return } } catch (e) { reject(e); return }
		setTimeout(look, 10)
	}
	look()
})`, expression)
	ctx, cancel := context.WithTimeout(p.ctx, callLimit)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](wait, chromedp.EvalAwaitPromise))
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			p.t.Fatalf("after %v this is not true: %s%s", callLimit, expression, p.faults.text())
		}
		if !navigated(err) {
			p.t.Fatalf("wait for %s: %v%s", expression, err, p.faults.text())
		}
	}
}

// Press types keys, one after the other; package github.com/chromedp/chromedp/kb names those
// without a letter. modifiers hold for all of them.
func (p *Page) Press(keys string, modifiers ...chromedp.Modifier) {
	p.t.Helper()
	Do(p, fmt.Sprintf("press %q", keys), chromedp.KeyEvent(keys, chromedp.KeyModifiers(modifiers...)))
}

// Screenshot returns what is seen of the page. An image of one colour fails the test.
func (p *Page) Screenshot(name string) image.Image {
	p.t.Helper()
	shot := Do(p, "screenshot", chromedp.CaptureScreenshot())
	if folder := os.Getenv("PARAGON_TEST_SCREENSHOTS"); folder != "" {
		if err := os.WriteFile(filepath.Join(folder, name+".png"), shot, 0o644); err != nil {
			p.t.Error(err)
		}
	}
	img, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		p.t.Fatalf("screenshot %s: %v", name, err)
	}
	if oneColour(img) {
		p.t.Errorf("screenshot %s: all of the page has one colour", name)
	}
	return img
}

func oneColour(img image.Image) bool {
	b := img.Bounds()
	first := img.At(b.Min.X, b.Min.Y)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if img.At(x, y) != first {
				return false
			}
		}
	}
	return true
}
